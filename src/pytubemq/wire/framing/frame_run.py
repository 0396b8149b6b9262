"""Consecutive frames that differ in serial number and message alone, kept as the bytes they are.

The invariant: a run gives the same requests or responses as reading each individually; the serial number rises by one
from each to the next, and their messages have the same length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Self, TypeVar, overload

from pytubemq.model.limits import MAX_INT32
from pytubemq.wire.framing.frame import ONE_BLOCK, TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LEAST_ALIKE: Final = 8
"""So many frames are worth looking at together."""
# It bounds the tables below, and how long one match can go on.
MOST_ALIKE: Final = 4_096
_SERIAL_AT: Final = 4
_LENGTH_AT: Final = 8
_COUNTING: Final = bytes(range(256)) * (MOST_ALIKE // 256 + 1)
"""The last byte of numbers that count up."""
_COUNTING_256: Final = b"".join(bytes((high,)) * 256 for high in range(256)) + bytes(MOST_ALIKE)
"""The byte before it."""


class FrameRun(Sequence[T]):
    """Frames with consecutive serial numbers; the content of one is made when it is looked at."""

    __slots__ = ("_count", "_make", "at", "body_bytes", "data", "serial", "stride")

    def __init__(
        self,
        make: Callable[[int, bytes], T],
        data: bytes,
        *,
        serial: int,
        at: int,
        body_bytes: int,
        stride: int,
        count: int,
    ) -> None:
        # Frames are cut out and decoded when they are asked for: who reads a run column by column makes no object for
        # any.
        self._make = make
        self.data = data
        """A read as it came; there is more in it than these frames."""
        self.serial = serial
        """The serial number of the first frame."""
        self.at = at
        """The start of the first frame's message in `data`."""
        self.body_bytes = body_bytes
        """The size of each message."""
        self.stride = stride
        """Bytes from one frame to the next."""
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> T | Self:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            # Other steps, or backwards, would be frames whose serial numbers do not count up.
            if step != 1:
                raise ValueError(f"a run is cut into runs, so the step is 1, not {step}")
            return self.part(start, max(start, stop))
        number = index + self._count if index < 0 else index
        if not 0 <= number < self._count:
            raise IndexError(f"frame {index} of {self._count}")
        return self._make(self.serial + number, self.body(number))

    def __iter__(self) -> Iterator[T]:
        make, data, size, serial = self._make, self.data, self.body_bytes, self.serial
        for at in range(self.at, self.at + self._count * self.stride, self.stride):
            yield make(serial, data[at : at + size])
            serial += 1

    def body(self, number: int) -> bytes:
        """Return the message of one frame."""
        at = self.at + number * self.stride
        return self.data[at : at + self.body_bytes]

    def part(self, start: int, stop: int) -> Self:
        """Return the frames from number `start` to before `stop`."""
        # A run cannot be changed, so the whole of it needs no copy.
        if start == 0 and stop == self._count:
            return self
        return type(self)(
            self._make,
            self.data,
            serial=self.serial + start,
            at=self.at + start * self.stride,
            body_bytes=self.body_bytes,
            stride=self.stride,
            count=stop - start,
        )


def alike_frames(lead: bytes, length: int) -> re.Pattern[bytes]:
    """Compile a match for frames of one block with so many bytes of content that begin with `lead`."""
    # The serial number is the only part of the head that differs, so the pattern skips its four bytes. `+` without
    # backtracking (`}+`): a match costs the length of what it matches, whatever follows.
    head = ONE_BLOCK.pack(TOKEN, 0, 1, length)
    frame = b"%b.{4}%b.{%d}" % (
        re.escape(head[:_SERIAL_AT]),
        re.escape(head[_LENGTH_AT:] + lead),
        length - len(lead),
    )
    return re.compile(b"(?:%b){1,%d}+" % (frame, MOST_ALIKE), re.DOTALL)


def count_consecutive(data: bytes, at: int, stride: int, count: int, serial: int) -> int:
    """Count the frames from `at` on whose serial numbers count up from `serial`."""
    # Beyond this the two upper bytes change; frames behind it are another run.
    count = min(count, 0x10000 - (serial & 0xFFFF), MAX_INT32 - serial + 1)
    # Column by column: one slice with a stride compares a byte of all frames in C, where a loop would cost as much as
    # reading each.
    end = at + stride * count
    at += _SERIAL_AT
    upper = serial.to_bytes(4, "big")
    # The last byte first: it is the one that differs if numbers do not count up, so the others compare fewer frames.
    for column, expected in (
        (3, _COUNTING[serial & 0xFF :][:count]),
        (2, _COUNTING_256[serial & 0xFFFF :][:count]),
        (1, upper[1:2] * count),
        (0, upper[:1] * count),
    ):
        found = data[at + column : end : stride][:count]
        if found != expected[:count]:
            count = agreeing(found, expected)
    return count


def agreeing(one: bytes, other: bytes) -> int:
    """Return the length of the common start of two different byte strings."""
    least, most = 0, min(len(one), len(other))
    # By halves, as one comparison of long slices costs little and a loop over bytes a lot.
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least
