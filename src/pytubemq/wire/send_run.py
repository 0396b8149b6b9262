"""SendMessages that leave one behind the other: their frames in one pass.

The invariant: the bytes are those of `encode_request` and `SendTemplate.encode` for each message by itself. What stands
around a payload follows from partition, flag, type, time and sizes, so it is made once for all messages that are alike
in these; what is remembered is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from pytubemq.model.limits import MAX_FRAME_BYTES
from pytubemq.wire.frame import ONE_BLOCK, TOKEN
from pytubemq.wire.methods import Method, Service
from pytubemq.wire.rpc import encode_request, request_lead
from pytubemq.wire.varint import encode_rising

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.ids import Partition
    from pytubemq.wire.hot import SendTemplate

_MOST_KNOWN: Final = 512
_SERVICE: Final = int(Service.BROKER_WRITE)
_METHOD: Final = int(Method.SEND_MESSAGE_P2B)

_Key = tuple[int, int, int, int, str | None, str | None]
_Around = tuple[int, bytes, bytes]
"""Bytes of the frame's content, what stands before the payload, and what stands behind it but for the sequence."""


class Sendable(Protocol):
    """A message as a producer holds it."""

    @property
    def partition(self) -> Partition: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def flag(self) -> int: ...
    @property
    def msg_type(self) -> str | None: ...
    @property
    def msg_time(self) -> str | None: ...
    @property
    def sequence(self) -> int | None: ...


class SendRunWriter:
    """Writes runs of one producer's sends that all may take the same time."""

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
        """With `producer_id` None no message has a sequence, else all do."""
        self._template = template
        self._timeout_ms = timeout_ms
        self._block_bytes = block_bytes
        self._who = producer_id, producer_epoch
        self._known: dict[_Key, _Around | None] = {}

    def encode(self, serial: int, messages: Sequence[Sendable]) -> list[bytes]:
        """Their frames in parts; the first has the serial number, the others follow."""
        parts: list[bytes] = []
        add, known, pack, numbered = parts.extend, self._known, ONE_BLOCK.pack, self._who[0] is not None
        number = b""
        for one in messages:
            payload = one.payload
            if numbered:
                number = encode_rising(one.sequence or 0)
            key = one.partition.partition_id, len(payload), one.flag, len(number), one.msg_type, one.msg_time
            try:
                around = known[key]
            except KeyError:
                around = self._learn(key)
            if around is None:  # it takes several blocks
                add(self._alone(serial, one))
            else:
                total, before, after = around
                add((pack(TOKEN, serial, 1, total), before, payload, after, number))
            serial += 1
        return parts

    def _learn(self, key: _Key) -> _Around | None:
        partition_id, payload_bytes, flag, number_bytes, msg_type, msg_time = key
        before, after = self._template.around(
            partition_id, payload_bytes, flag, msg_type, msg_time, *self._who, numbered=number_bytes > 0
        )
        size = len(before) + payload_bytes + len(after) + number_bytes
        lead = request_lead(_SERVICE, _METHOD, self._timeout_ms, None, size)
        total = len(lead) + size
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        fits = total <= (MAX_FRAME_BYTES if self._block_bytes is None else self._block_bytes)
        around = self._known[key] = (total, lead + before, after) if fits else None
        return around

    def _alone(self, serial: int, one: Sendable) -> list[bytes]:
        sequence = one.sequence if self._who[0] is not None else None
        body = self._template.encode(
            one.partition.partition_id, one.payload, one.flag, one.msg_type, one.msg_time, sequence, *self._who
        )
        return encode_request(
            serial, service=_SERVICE, method=_METHOD, timeout_ms=self._timeout_ms, body=(body,),
            block_bytes=self._block_bytes,
        )  # fmt: skip
