"""Decoding of consecutive SendMessage requests of one producer in one pass.

The invariant: the result is that of `decode_send` for each message individually. Where one of them differs from the
first in more than partition, payload and sequence, or has another order than usual, there is no result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.wire.fast import send_message
from pytubemq.wire.fast.equal_sends import place_of, read_alike
from pytubemq.wire.fast.send_group import SendGroups
from pytubemq.wire.protobuf.fields import UnusualError
from pytubemq.wire.protobuf.varint import MAX_ONE_BYTE, decode_varint, encode_varint
from pytubemq.wire.protocol.extensions import ExtensionField
from pytubemq.wire.rpc.request_run import RequestRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.wire.fast.send_group import SendGroup
    from pytubemq.wire.fast.sends import SendRequest
    from pytubemq.wire.rpc.envelope import Request

_MOST_KNOWN: Final = 1024
_MOST_WHO_BYTES: Final = 256
"""Requests that begin with more are read one by one, and nothing of them is remembered."""
_SEQUENCE_TAG: Final = encode_varint(ExtensionField.SEQUENCE << 3)
_THREE: Final = 3


class SendRun(NamedTuple):
    """The content of several requests: the first one, and the messages of all."""

    first: SendRequest
    groups: list[SendGroup]


class SendReader:
    """A reader of the requests of any producers; remembers how they begin."""

    __slots__ = ("_places", "_who")

    def __init__(self) -> None:
        self._who = b""
        """The bytes with which the last requests began."""
        self._places: dict[bytes, tuple[int, int]] = {}
        """Partition, and where the payload ends, by the bytes before it, of requests that began so."""

    def read(self, parts: Sequence[Request | RequestRun]) -> SendRun | None:
        """Read the requests; None where they have to be read one by one.

        Raises:
            EnvelopeError: the first one is no such request.
        """
        one = parts[0]
        body = one.body(0) if isinstance(one, RequestRun) else one.body
        # The first is decoded as any other. For the rest it is enough to be like it.
        first = send_message.decode_send(body)
        try:
            around = send_message.split_send(body)
            if around is None or not 0 < len(around[0]) <= _MOST_WHO_BYTES:
                return None
            groups = self._groups(parts, around[0], around[1], numbered=first.sequence is not None)
        except (UnusualError, IndexError, ValueError):  # one ends too early, or a number is too long
            return None
        return None if groups is None else SendRun(first, groups.found)

    def _groups(
        self, parts: Sequence[Request | RequestRun], who: bytes, tail: bytes, *, numbered: bool
    ) -> SendGroups | None:
        # Positions are remembered for one producer at a time: another one has other bytes before them.
        if who != self._who:
            self._who, self._places = who, {}
        groups = SendGroups(numbered=numbered)
        close = tail + _SEQUENCE_TAG if numbered else tail
        # Single requests are gathered until the next run, so both kinds keep the order in which they came.
        bodies: list[bytes] = []
        for part in parts:
            if not isinstance(part, RequestRun):
                bodies.append(part.body)
                continue
            if bodies and not self._read_each(bodies, who, close, groups):
                return None
            bodies = []
            # It has taken none of them then, so they can be read one by one.
            if not read_alike(part, who, close, groups):
                bodies = [part.body(number) for number in range(len(part))]
        return groups if not bodies or self._read_each(bodies, who, close, groups) else None

    def _read_each(self, bodies: Sequence[bytes], who: bytes, close: bytes, groups: SendGroups) -> bool:
        """Take messages one by one; False if one differs from the first in more than it may."""
        size, places, start, numbered = len(close), self._places, 0, groups.numbered
        sequence = 0
        for body in bodies:
            # `start` is that of the message before: the same producer writes the same prefix for the same partition
            # and size.
            place = places.get(body[:start])
            if place is None:
                # Another partition, or a payload whose length has other bytes: found once, then remembered by its
                # bytes.
                start, *ends = place_of(body, who)
                if not start:
                    return False
                place = ends[0], ends[1]
                # Sizes are the producer's choice, so what is remembered of them is bounded.
                if len(places) >= _MOST_KNOWN:
                    places.clear()
                places[body[:start]] = place
            partition_id, end = place
            # Flag, type or time differ: the whole run is read one by one, as the first message stands for all of them.
            if not body.startswith(close, end):
                return False
            at = end + size
            if numbered:
                # Sequences from 16,384 to 2,097,151 have three bytes, which is where most are; a call for each would
                # show.
                if len(body) - at == _THREE and body[at] > MAX_ONE_BYTE < body[at + 1] and body[at + 2] <= MAX_ONE_BYTE:
                    sequence = body[at] & MAX_ONE_BYTE | (body[at + 1] & MAX_ONE_BYTE) << 7 | body[at + 2] << 14
                else:
                    sequence, at = decode_varint(body, at)
                    if at != len(body) or sequence >> 63:
                        return False
            elif at != len(body):
                return False
            groups.add(partition_id, sequence, body[start:end])
        return True
