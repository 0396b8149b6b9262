"""A file of the disk in memory: its content for programs, on the device, and after a crash.

The invariant: flushed bytes stay; of the rest a crash leaves any part, in any order, torn at any byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

_SECTOR_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Write:
    """A write of bytes from a position on."""

    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A change of the file's size, with zeros where it had nothing."""

    size: int


Change: TypeAlias = Write | Truncate


@dataclass(slots=True, eq=False)
class Inode:
    """A file: `data` is its content for programs, `durable` that on the device, `pending` the changes between."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    @classmethod
    def durably(cls, data: bytes) -> Inode:
        """Return a file whose bytes are on the device."""
        return cls(bytearray(data), bytearray(data))

    def do(self, change: Change) -> None:
        """Apply a change that programs see at once."""
        _change(self.data, change)
        self.pending.append(change)

    def take_pending(self) -> list[Change]:
        """Remove and return the changes to flush; if that fails they never reach the device, as on Linux."""
        pending, self.pending = self.pending, []
        return pending

    def flush(self, changes: Sequence[Change]) -> None:
        """Apply changes that have reached the device."""
        for change in changes:
            _change(self.durable, change)

    def lose(self, rng: Random) -> None:
        """Simulate the death of the machine: a random part of the pending changes reaches the device."""
        pending = self.pending
        way = rng.randrange(4)
        if way == 1:
            kept = pending
        elif way == 2:  # in order, torn at any byte
            kept = pending[: rng.randint(0, len(pending))]
            if kept and isinstance(last := kept[-1], Write):
                kept = [*kept[:-1], Write(last.position, last.data[: rng.randint(0, len(last.data))])]
        elif way == 3:  # in any order, sector by sector
            kept = []
            for change in pending:
                if isinstance(change, Write):
                    kept += [piece for piece in _sectors(change) if rng.random() < 0.5]
                elif rng.random() < 0.5:
                    kept.append(change)
        else:
            kept = []
        self.flush(kept)
        self.data, self.pending = bytearray(self.durable), []

    def flip_bit(self, position: int, bit: int) -> None:
        """Damage a byte, on the device and in memory."""
        self.data[position] ^= 1 << bit
        if position < len(self.durable):
            self.durable[position] ^= 1 << bit


def _change(content: bytearray, change: Change) -> None:
    if isinstance(change, Truncate):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
    else:
        if len(content) < change.position:
            content.extend(bytes(change.position - len(content)))
        content[change.position : change.position + len(change.data)] = change.data


def _sectors(write: Write) -> list[Write]:
    """Return the write cut at the device's sector bounds."""
    pieces: list[Write] = []
    at = 0
    while at < len(write.data):
        size = _SECTOR_BYTES - (write.position + at) % _SECTOR_BYTES
        pieces.append(Write(write.position + at, write.data[at : at + size]))
        at += size
    return pieces
