"""The rejection of a record that cannot be decoded, and the wording of its detail."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_DECIMAL: Final = re.compile(r"Decimal\('([^']*)'\)")
"""A number as Python shows it."""
_SHOWN_CHARS: Final = 60
_UNREAD_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that was not decoded. `row` is its message's row in the batch."""

    row: int
    record: int | None
    reason: str
    detail: str
    raw: bytes | None
    attributes: Mapping[str, str] | None = None
    """The wrapper's, in place of the message's."""


def shown(value: object) -> str:
    """Return a value as a detail shows it, shortened."""
    text = _DECIMAL.sub(r"\1", repr(value))
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def unread(error: BaseException, text: str | bytes) -> str:
    """Return a parser's error and the beginning of the text that it refused."""
    first = text[:_UNREAD_CHARS]
    shown_first = shown(first if isinstance(first, str) else first.decode("utf-8", "backslashreplace"))
    return f"{str(error)[:_UNREAD_CHARS]}; it begins {shown_first}"
