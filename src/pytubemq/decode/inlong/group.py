"""Groups of records, which every form of InLongMsg is parsed to, their bounds, and the error of malformed bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MAX_ATTRIBUTE_PAIRS

if TYPE_CHECKING:
    from collections.abc import Mapping

MAGIC_BYTES: Final = 2
"""0F and the version, first and last in a binary message."""


class InLongError(ValueError):
    """The bytes are not what they should be; the text says what."""


@dataclass(frozen=True, slots=True)
class Group:
    """Records with the attributes that they share. `time_ms` is what the message itself says, not the attributes."""

    attributes: Mapping[str, str]
    records: list[bytes]
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The largest message that is parsed."""

    size_bytes: int
    records: int
    attribute_bytes: int
    pairs: int = MAX_ATTRIBUTE_PAIRS
