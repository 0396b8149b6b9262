"""SendMessages of one producer that came one behind the other: what they say, in one pass.

The invariant: what comes out is what `decode_send` says of each message by itself. Where one of them differs from the
first in more than partition, payload and sequence, or stands in another order than usual, nothing comes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.wire import direct
from pytubemq.wire.extensions import ExtensionField
from pytubemq.wire.fields import UnusualError
from pytubemq.wire.varint import decode_varint, encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.wire.hot import SendRequest

_MOST_KNOWN: Final = 1024
_ONE_BYTE: Final = 0x7F
_MAX_I32: Final = 0x7FFFFFFF
_PARTITION: Final = 3 << 3
_DATA: Final = 4 << 3 | 2
_SEQUENCE_TAG: Final = encode_varint(ExtensionField.SEQUENCE << 3)
_THREE: Final = 3


class SendGroup:
    """Messages of one partition; if they are numbered, their sequences follow each other."""

    __slots__ = ("following", "numbers", "partition_id", "payloads", "sequence")

    def __init__(self, partition_id: int, sequence: int) -> None:
        self.partition_id = partition_id
        self.sequence = self.following = sequence
        """Of the first message, and behind the last."""
        self.numbers: list[int] = []
        """Which ones of the run they are."""
        self.payloads: list[bytes] = []


class SendRun(NamedTuple):
    """What several requests say: the first one, and the messages of all."""

    first: SendRequest
    groups: list[SendGroup]


class SendReader:
    """Reads the requests of any producers; remembers how they begin."""

    __slots__ = ("_places", "_who")

    def __init__(self) -> None:
        self._who = b""
        """How the last requests began."""
        self._places: dict[bytes, tuple[int, int]] = {}
        """Partition, and where the payload ends, by the bytes before it, of requests that began so."""

    def read(self, bodies: Sequence[bytes]) -> SendRun | None:
        """What they say; None where they have to be looked at one by one.

        Raises:
            EnvelopeError: the first one is no such request.
        """
        first = direct.decode_send(bodies[0])
        try:
            parts = direct.split_send(bodies[0])
        except (UnusualError, IndexError, ValueError):
            return None
        if parts is None or not parts[0]:
            return None
        try:
            groups = self._groups(bodies, parts[0], parts[1], numbered=first.sequence is not None)
        except (IndexError, ValueError):  # one ends too early, or a number is too long
            return None
        return None if groups is None else SendRun(first, groups)

    def _groups(self, bodies: Sequence[bytes], who: bytes, tail: bytes, *, numbered: bool) -> list[SendGroup] | None:
        if who != self._who:
            self._who, self._places = who, {}
        close = tail + _SEQUENCE_TAG if numbered else tail
        size, places, start = len(close), self._places, 0
        found: list[SendGroup] = []
        latest: dict[int, SendGroup] = {}
        sequence = 0
        for number, body in enumerate(bodies):
            place = places.get(body[:start])
            if place is None:
                start, *ends = _place(body, who)
                if not start:
                    return None
                place = ends[0], ends[1]
                if len(places) >= _MOST_KNOWN:
                    places.clear()
                places[body[:start]] = place
            partition_id, end = place
            if not body.startswith(close, end):
                return None
            at = end + size
            if numbered:
                if len(body) - at == _THREE and body[at] > _ONE_BYTE < body[at + 1] and body[at + 2] <= _ONE_BYTE:
                    sequence = body[at] & _ONE_BYTE | (body[at + 1] & _ONE_BYTE) << 7 | body[at + 2] << 14
                else:
                    sequence, at = decode_varint(body, at)
                    if at != len(body) or sequence >> 63:
                        return None
            elif at != len(body):
                return None
            group = latest.get(partition_id)
            if group is None or (numbered and group.following != sequence):
                group = latest[partition_id] = SendGroup(partition_id, sequence)
                found.append(group)
            group.following += 1
            group.numbers.append(number)
            group.payloads.append(body[start:end])
        return found


def _place(body: bytes, who: bytes) -> tuple[int, int, int]:
    """Where the payload begins, the partition, and where the payload ends; 0 first if it does not stand so.

    Raises:
        IndexError, ValueError: it does not stand so.
    """
    at = len(who)
    if not body.startswith(who) or body[at] != _PARTITION:
        return 0, 0, 0
    partition_id, at = decode_varint(body, at + 1)
    if body[at] != _DATA or partition_id > _MAX_I32:
        return 0, 0, 0
    size, start = decode_varint(body, at + 1)
    if start + size > len(body):
        return 0, 0, 0
    return start, partition_id, start + size
