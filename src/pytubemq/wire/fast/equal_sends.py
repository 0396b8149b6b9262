"""Column-wise decoding of SendMessage requests of equal length: what is the same in all of them is compared once.

The invariant: the result is that of reading each individually; where one differs from the first in more than partition,
payload and sequence, all are left to the caller.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MAX_INT32
from pytubemq.wire.protobuf.varint import decode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.wire.fast.send_group import SendGroups
    from pytubemq.wire.rpc.request_run import RequestRun

_PARTITION: Final = 3 << 3
_DATA: Final = 4 << 3 | 2
_MORE: Final = 0x80
_BITS: Final = 7
_LOW: Final = (1 << _BITS) - 1
_MOST_DIGITS: Final = 8
"""Sequences of more bytes are read one by one."""
_ROW_PAYS_FROM: Final = 4
"""Messages of one partition, on average, from which taking them as a row costs less than one by one."""
_WINDOW: Final = 1 << 2 * _BITS
_FIRST: Final = bytes(value & _LOW | _MORE for value in range(_WINDOW))
_SECOND: Final = bytes(value >> _BITS & _LOW | _MORE for value in range(_WINDOW))
"""The first two bytes of numbers that count up and have more, by their lower 14 bits."""
_SECOND_OF_TWO: Final = bytes(value >> _BITS for value in range(_WINDOW))
"""The second byte of numbers that count up and have no more."""


def read_alike(run: RequestRun, who: bytes, close: bytes, groups: SendGroups) -> bool:
    """Take all messages of a run, or none if one differs from the first in more than it may.

    Args:
        run: the requests.
        who: the bytes before the partition.
        close: the bytes between payload and sequence, with the sequence's tag if messages are numbered.
        groups: get the messages.

    Raises:
        IndexError, ValueError: one ends too early, or a number in it is too long.
    """
    # The first stands for all: the lengths of a run's messages agree, so do their layouts if the bytes do.
    start, _, end = place_of(run.body(0), who)
    tail = end + len(close)
    digits = run.body_bytes - tail
    # A run's messages have one size, so with one layout their numbers have one length; the columns below show it.
    if not start or not (0 < digits <= _MOST_DIGITS if groups.numbered else digits == 0):
        return False
    data, each = run.data, range(run.at, run.at + len(run) * run.stride, run.stride)
    # Partition and payload length are all that may differ here. A producer fills one partition after the other, so
    # nearly every run is a few rows of messages that begin alike.
    begins = [data[at : at + start] for at in each]
    rows = [(begin, len(list(row))) for begin, row in groupby(begins)]
    partitions: dict[bytes, int] = {}
    number = 0
    for begin, count in rows:
        if begin not in partitions:
            there, partition_id, stop = place_of(run.body(number), who)
            if (there, stop) != (start, end):
                return False
            partitions[begin] = partition_id
        number += count
    # Flag, type, time, address and producer: compared in C, once for each.
    if [data[at + end : at + tail] for at in each].count(close) != len(run):
        return False
    # The sequences, byte by byte over all messages: slices with a stride are made in C.
    columns = [data[run.at + at : each.stop : run.stride][: len(run)] for at in range(tail, run.body_bytes)]
    # All numbers must have the same count of bytes: the last byte without the continuation bit, all before it with it.
    if columns and (max(columns[-1]) & _MORE or any(min(column) < _MORE for column in columns[:-1])):
        return False
    payloads = [data[at + start : at + end] for at in each]
    if len(rows) * _ROW_PAYS_FROM <= len(run):
        at = 0
        for begin, count in rows:
            stop = at + count
            _add_row(groups, partitions[begin], [column[at:stop] for column in columns], payloads[at:stop])
            at = stop
        return True
    for begin, sequence, payload in zip(begins, _values(columns, len(run)), payloads, strict=True):
        groups.add(partitions[begin], sequence, payload)
    return True


def _add_row(groups: SendGroups, partition_id: int, columns: Sequence[bytes], payloads: Sequence[bytes]) -> None:
    """Add consecutive messages of one partition, whose sequences have these columns; none if they are not numbered."""
    # It numbers them without gaps, unless some were sent again.
    if not columns or _rises(columns):
        groups.add_row(partition_id, _values([column[:1] for column in columns], 1)[0], payloads)
        return
    for sequence, payload in zip(_values(columns, len(payloads)), payloads, strict=True):
        groups.add(partition_id, sequence, payload)


def _values(columns: Sequence[bytes], count: int) -> list[int]:
    """Combine so many numbers from their first, second, ... bytes."""
    values = [0] * count
    for column in reversed(columns):
        # From the last byte to the first: a varint's low bits come first.
        values = [high << _BITS | low & _LOW for high, low in zip(values, column, strict=True)]
    return values


def _rises(columns: Sequence[bytes]) -> bool:
    """True if the numbers with these bytes count up by one; False where that is not certain at once."""
    count = len(columns[0])
    low = _values([column[:1] for column in columns[:2]], 1)[0]
    second = _SECOND if len(columns) > 2 else _SECOND_OF_TWO
    return (
        len(columns) >= 2
        # Where the upper bytes change within the run, each message is looked at.
        and low + count <= _WINDOW
        and columns[0] == _FIRST[low : low + count]
        and columns[1] == second[low : low + count]
        and all(column.count(column[:1]) == count for column in columns[2:])
    )


def place_of(body: bytes, who: bytes) -> tuple[int, int, int]:
    """Return the payload's start, the partition and the payload's end; 0 first if the layout is another.

    Raises:
        IndexError, ValueError: it ends too early, or a number is too long.
    """
    at = len(who)
    if not body.startswith(who) or body[at] != _PARTITION:
        return 0, 0, 0
    partition_id, at = decode_varint(body, at + 1)
    if body[at] != _DATA or partition_id > MAX_INT32:
        return 0, 0, 0
    size, start = decode_varint(body, at + 1)
    if start + size > len(body):
        return 0, 0, 0
    return start, partition_id, start + size
