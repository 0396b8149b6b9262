"""A file of the disk in memory: what programs see of it, what is on the device, and what a crash leaves.

The invariant: what was flushed stays; of the rest a crash leaves any part, in any order, torn at any byte.
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
    """These bytes, from this position on."""

    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """The file has this size, with zeros where it had nothing."""

    size: int


Change: TypeAlias = Write | Truncate


@dataclass(slots=True, eq=False)
class Inode:
    """`data` is what programs see, `durable` what is on the device, `pending` what happened in between."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    @classmethod
    def durably(cls, data: bytes) -> Inode:
        """One whose bytes are on the device."""
        return cls(bytearray(data), bytearray(data))

    def do(self, change: Change) -> None:
        """Programs see it at once."""
        _change(self.data, change)
        self.pending.append(change)

    def take_pending(self) -> list[Change]:
        """What is to be flushed; if that fails it will never reach the device, as on Linux."""
        pending, self.pending = self.pending, []
        return pending

    def flush(self, changes: Sequence[Change]) -> None:
        """These have reached the device."""
        for change in changes:
            _change(self.durable, change)

    def lose(self, rng: Random) -> None:
        """The machine dies: a random part of what is pending reaches the device."""
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
    """The write cut at the device's sector bounds."""
    pieces: list[Write] = []
    at = 0
    while at < len(write.data):
        size = _SECTOR_BYTES - (write.position + at) % _SECTOR_BYTES
        pieces.append(Write(write.position + at, write.data[at : at + size]))
        at += size
    return pieces
