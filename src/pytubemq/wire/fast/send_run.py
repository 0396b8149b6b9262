"""Encoding of consecutive SendMessage requests: their frames in one pass.

The invariant: the bytes are those of `encode_request` and `SendTemplate.encode` for each message individually. What is
around a payload follows from partition, flag, type, time and sizes, so it is made once for all messages that are alike
in these; what is remembered is bounded.
"""

from __future__ import annotations

from struct import Struct, iter_unpack, pack
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MAX_FRAME_BYTES
from pytubemq.wire.framing.frame import ONE_BLOCK, TOKEN
from pytubemq.wire.protobuf.varint import PAIRS, encode_rising, encode_shared, encode_varint
from pytubemq.wire.rpc.envelope import encode_request, request_lead
from pytubemq.wire.rpc.methods import Method, Service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.wire.fast.sends import SendTemplate

_MOST_KNOWN: Final = 512
_SERVICE: Final = int(Service.BROKER_WRITE)
_METHOD: Final = int(Method.SEND_MESSAGE_P2B)
_LOW_BITS: Final = 14
_WINDOW: Final = 1 << _LOW_BITS
"""Numbers that count up share all but two bytes within such a window."""
_TOKEN_BYTES: Final = TOKEN.to_bytes(4, "big")
_ONE_OF: Final = Struct(">ii")
"""The number of blocks, and the bytes of the first."""

_Key = tuple[int, int, int, int, str | None, str | None]
_Around = tuple[int, bytes, bytes]
"""Bytes of the frame's content, what comes before the payload, and what comes after it but for the sequence."""


class SendRunWriter:
    """A writer of consecutive sends of one producer that all may take the same time."""

    __slots__ = ("_block_bytes", "_known", "_template", "_timeout_ms", "_who")

    def __init__(
        self,
        template: SendTemplate,
        *,
        timeout_ms: int,
        block_bytes: int | None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
    ) -> None:
        """Create the writer; without `producer_id` messages have no sequence number, else all of them have one."""
        self._template = template
        self._timeout_ms = timeout_ms
        self._block_bytes = block_bytes
        self._who = producer_id, producer_epoch
        # None where a message takes several blocks.
        self._known: dict[_Key, _Around | None] = {}

    def encode(
        self,
        serial: int,
        partition_id: int,
        payloads: Sequence[bytes],
        headers: Sequence[tuple[int, str | None, str | None]] | None,
        sequence: int | None,
    ) -> list[bytes]:
        """Return the frames of messages of one partition in parts.

        Args:
            serial: the first frame's serial number; the others follow.
            partition_id: the messages' partition.
            payloads: one for each message.
            headers: flag, type and time of each message; None if all are 0, None and None.
            sequence: the first message's sequence number; the others follow.
        """
        # Headers may differ from message to message; messages without any are written column by column.
        if headers is not None:
            return self._encode_each(serial, partition_id, payloads, headers, sequence)
        parts: list[bytes] = []
        start, count = 0, len(payloads)
        while start < count:
            stop = count
            if sequence is not None:
                # Within a window the numbers have one length and share their upper bytes, so they are written column
                # by column.
                stop = min(count, start + _next_window(sequence + start) - sequence - start)
            part = payloads if stop - start == count else payloads[start:stop]
            number = None if sequence is None else sequence + start
            parts += self._encode_window(serial + start, partition_id, part, number)
            start = stop
        return parts

    def _encode_each(
        self,
        serial: int,
        partition_id: int,
        payloads: Sequence[bytes],
        headers: Sequence[tuple[int, str | None, str | None]],
        sequence: int | None,
    ) -> list[bytes]:
        parts: list[bytes] = []
        add, known, pack = parts.extend, self._known, ONE_BLOCK.pack
        number = b""
        for payload, (flag, msg_type, msg_time) in zip(payloads, headers, strict=True):
            if sequence is not None:
                # The sequence is the last field, so all before the payload and behind it stays the same for messages
                # alike in size, flag, type and time.
                number = encode_rising(sequence)
            key = partition_id, len(payload), flag, len(number), msg_type, msg_time
            try:
                around = known[key]
            except KeyError:
                around = self._learn(key)
            if around is None:  # it takes several blocks
                add(self._alone(serial, partition_id, payload, flag, msg_type, msg_time, sequence))
            else:
                total, before, after = around
                add((pack(TOKEN, serial, 1, total), before, payload, after, number))
            serial += 1
            if sequence is not None:
                sequence += 1
        return parts

    def _encode_window(
        self, serial: int, partition_id: int, payloads: Sequence[bytes], sequence: int | None
    ) -> list[bytes]:
        """Encode messages whose numbers have the same length, and the same upper bytes if they have more than two."""
        count, shared = len(payloads), b""
        if sequence is None:
            numbers, number_bytes = [b""] * count, 0
        # Numbers of one or two bytes have no upper part to share.
        elif sequence < _WINDOW:
            numbers = _short_numbers(sequence, count)
            number_bytes = len(numbers[0])
        else:
            low = sequence & _WINDOW - 1
            numbers, shared = PAIRS[low : low + count], encode_shared(sequence >> _LOW_BITS)
            number_bytes = len(numbers[0]) + len(shared)
        # Once for each size there is, not for each message.
        known = {size: self._around(partition_id, size, number_bytes) for size in set(map(len, payloads))}
        # By size, since the length of the payload comes before it.
        heads: dict[int, bytes] = {}
        after = b""
        for size, around in known.items():
            if around is None:  # it takes several blocks
                parts: list[bytes] = []
                for behind, payload in enumerate(payloads):
                    number = None if sequence is None else sequence + behind
                    parts += self._alone(serial + behind, partition_id, payload, 0, None, None, number)
                return parts
            total, before, after = around
            heads[size] = _ONE_OF.pack(1, total) + before
        # What is between the parts that differ is put in for all at once.
        head = next(iter(heads.values()))
        parts = [b"", head, b"", after, b"", shared + _TOKEN_BYTES] * count
        # All serial numbers in one call to struct, then cut: a pack call for each would cost more than the rest of the
        # frame.
        parts[0::6] = [written for (written,) in iter_unpack("4s", pack(f">{count}i", *range(serial, serial + count)))]
        # With one size the head is in place already.
        if len(heads) > 1:
            parts[1::6] = [heads[len(payload)] for payload in payloads]
        parts[2::6] = payloads
        parts[4::6] = numbers
        # Each sixth part brings the token of the frame behind it. Behind the last there is none, and the first token
        # comes before all.
        parts[-1] = shared
        parts.insert(0, _TOKEN_BYTES)
        return parts

    def _around(self, partition_id: int, payload_bytes: int, number_bytes: int) -> _Around | None:
        key = partition_id, payload_bytes, 0, number_bytes, None, None
        try:
            return self._known[key]
        except KeyError:
            return self._learn(key)

    def _learn(self, key: _Key) -> _Around | None:
        partition_id, payload_bytes, flag, number_bytes, msg_type, msg_time = key
        before, after = self._template.around(
            partition_id, payload_bytes, flag, msg_type, msg_time, *self._who, numbered=number_bytes > 0
        )
        size = len(before) + payload_bytes + len(after) + number_bytes
        lead = request_lead(_SERVICE, _METHOD, self._timeout_ms, None, size)
        total = len(lead) + size
        # Sizes and types come from the user's messages: what is remembered is bounded, and built anew in microseconds.
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        # What does not fit has its blocks cut by `encode_frame`.
        fits = total <= (MAX_FRAME_BYTES if self._block_bytes is None else self._block_bytes)
        around = self._known[key] = (total, lead + before, after) if fits else None
        return around

    def _alone(
        self,
        serial: int,
        partition_id: int,
        payload: bytes,
        flag: int,
        msg_type: str | None,
        msg_time: str | None,
        sequence: int | None,
    ) -> list[bytes]:
        # The plain way, which also raises FrameError for what no frame holds.
        body = self._template.encode(partition_id, payload, flag, msg_type, msg_time, sequence, *self._who)
        return encode_request(
            serial, service=_SERVICE, method=_METHOD, timeout_ms=self._timeout_ms, body=(body,),
            block_bytes=self._block_bytes,
        )  # fmt: skip


def _short_numbers(first: int, count: int) -> list[bytes]:
    """Encode the varints of numbers that count up from `first`, all of one byte or all of two."""
    if first < 1 << 7:
        return [encode_varint(number) for number in range(first, first + count)]
    written = bytearray(2 * count)
    written[0::2] = _FIRST[first : first + count]
    written[1::2] = _LAST[first : first + count]
    return [number for (number,) in iter_unpack("2s", written)]


_FIRST: Final = bytes(value & 0x7F | 0x80 for value in range(_WINDOW))
_LAST: Final = bytes(value >> 7 for value in range(_WINDOW))
"""The two bytes of a number within the first window, from 128 on."""


def _next_window(sequence: int) -> int:
    """Return the first number behind `sequence` that is longer than it or differs in more than two bytes."""
    if sequence < 1 << 7:
        return 1 << 7
    return (sequence >> _LOW_BITS) + 1 << _LOW_BITS
