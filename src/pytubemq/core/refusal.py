"""Refusals of requests: a code of the protocol and one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytubemq.errors import Code


class Refusal(NamedTuple):
    """The reason why something was not done."""

    code: Code
    text: str


class Refused(Exception):
    """A request that a server answers with a code instead of doing it."""

    # Raised through the checks of a request and caught where its response is made, so no check has to pass codes on.
    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.refusal = Refusal(code, text)
