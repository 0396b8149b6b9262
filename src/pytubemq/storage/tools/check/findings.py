"""The findings of a check of a store: one file each, and its consequence.

The invariant: a finding names its file; what is lost with it is reported in offsets wherever that is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pytubemq.model.offset import OFFSET_UNIT

if TYPE_CHECKING:
    from pathlib import Path


class Severity(Enum):
    """The consequence of a finding for users of the store."""

    DAMAGE = "damage"
    """Something is lost, or would be refused or skipped, unless it is repaired."""
    FENCED = "fenced"
    """Messages that were lost before and are known to be: readers skip them."""
    HARMLESS = "harmless"
    """Bytes that nobody needs; a Broker never looks at them, or removes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place; offsets are those of the messages it concerns, `to_offset` is behind the last one."""

    path: Path
    what: str
    severity: Severity = Severity.DAMAGE
    position: int = 0
    """Byte in the file."""
    size_bytes: int = 0
    topic: str | None = None
    partition_id: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None

    @property
    def messages(self) -> int:
        """The number of messages it concerns, as far as that is known."""
        if self.from_offset is None or self.to_offset is None:
            return 0
        return (self.to_offset - self.from_offset) // OFFSET_UNIT
