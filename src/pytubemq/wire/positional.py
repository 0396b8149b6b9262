"""Results that a response gives by position: the first one belongs to the first thing that was asked, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytubemq.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

A = TypeVar("A")
R = TypeVar("R")


def match_results(asked: Sequence[A], results: Sequence[R], what: str) -> list[tuple[A, R]]:
    """Return each thing that was asked with its result.

    Raises:
        FormatError: there are more or fewer results; then none of them says anything.
    """
    if len(asked) != len(results):
        raise FormatError(
            f"a response has {len(results)} results for {len(asked)} {what}",
            hint="whether the work was done is unknown; look, and ask again",
        )
    return list(zip(asked, results, strict=True))
