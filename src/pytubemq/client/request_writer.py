"""The bytes of a producer's requests to a Broker.

The invariant: who sends, to which topic, and the visit token are the same in all of them, and what they are now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.wire.hot import BatchItem, SendTemplate, encode_send_batch
from pytubemq.wire.pack_send import encode_send_packs
from pytubemq.wire.send_run import SendRunWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.flight import Pack
    from pytubemq.client.lane_owner import LaneOwner
    from pytubemq.client.pending import Pending


class RequestWriter:
    """Writes for one lane."""

    def __init__(self, owner: LaneOwner) -> None:
        self._owner = owner
        self._token = owner.cluster.visit_token
        self._template = self._new_template()
        self._run: tuple[tuple[int | None, int | None, float, int | None], SendRunWriter] | None = None
        """The writer of the last run, and what it was made for."""

    def packs(self, packs: Sequence[Pack], *, numbered: bool, refusals_seen: int) -> list[bytes]:
        """SEND_PACKS; `numbered`: say whose numbers the messages have."""
        owner = self._owner
        return encode_send_packs(
            owner.client_id,
            owner.topic,
            owner.cluster.sent_addr,
            [pack.entry for pack in packs],
            *self._who(numbered=numbered),
            token=owner.cluster.visit_token,
            refusals_seen=refusals_seen,
        )

    def batch(self, batch: Sequence[Pending], *, numbered: bool, refusals_seen: int) -> list[bytes]:
        """SEND_BATCH."""
        owner = self._owner
        return encode_send_batch(
            owner.client_id,
            owner.topic,
            owner.cluster.sent_addr,
            [
                BatchItem(one.partition.partition_id, one.payload, one.flag, one.msg_type, one.msg_time, one.sequence)
                for one in batch
            ],
            *self._who(numbered=numbered),
            token=owner.cluster.visit_token,
            refusals_seen=refusals_seen,
        )

    def single(self, one: Pending, *, numbered: bool) -> bytes:
        """SEND_MESSAGE, as the original's producers send it."""
        self._check_token()
        if not numbered:
            return self._template.encode(one.partition.partition_id, one.payload, one.flag, one.msg_type, one.msg_time)
        return self._template.encode(
            one.partition.partition_id,
            one.payload,
            one.flag,
            one.msg_type,
            one.msg_time,
            one.sequence,
            self._owner.numbers.producer_id,
            self._owner.numbers.epoch,
        )

    def run(self, *, numbered: bool, timeout_s: float, block_bytes: int | None) -> SendRunWriter:
        """For SEND_MESSAGEs that leave one behind the other and have the same time."""
        producer_id, epoch = self._who(numbered=numbered)
        key = self._owner.cluster.visit_token, producer_id, timeout_s, block_bytes
        if self._run is None or self._run[0] != key:
            self._check_token()
            timeout_ms = max(1, int(timeout_s * 1000))
            writer = SendRunWriter(
                self._template,
                timeout_ms=timeout_ms,
                block_bytes=block_bytes,
                producer_id=producer_id,
                producer_epoch=epoch,
            )
            self._run = key, writer
        return self._run[1]

    def _check_token(self) -> None:
        if self._token != self._owner.cluster.visit_token:
            self._token = self._owner.cluster.visit_token
            self._template = self._new_template()

    def _who(self, *, numbered: bool) -> tuple[int | None, int | None]:
        """Id and epoch."""
        producer_id = self._owner.numbers.producer_id if numbered else None
        return producer_id, None if producer_id is None else self._owner.numbers.epoch

    def _new_template(self) -> SendTemplate:
        owner = self._owner
        return SendTemplate(owner.client_id, owner.topic, owner.cluster.sent_addr, token=self._token)
