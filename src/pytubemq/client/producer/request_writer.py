"""The writer of a sender's requests.

The invariant: client id, topic and visit token are the same in all requests, and up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.wire.batch.send_batches import encode_send_packs
from pytubemq.wire.fast.send_run import SendRunWriter
from pytubemq.wire.fast.sends import BatchItem, SendTemplate, encode_send_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.producer.in_flight import OutgoingBatch
    from pytubemq.client.producer.messages.pending_message import PendingMessage
    from pytubemq.client.producer.sender_owner import SenderOwner
    from pytubemq.client.producer.sequence_numbers import SequenceNumbers


class RequestWriter:
    """Encodes the requests of one sender."""

    def __init__(self, owner: SenderOwner, numbers: SequenceNumbers) -> None:
        self._owner = owner
        self._numbers = numbers
        self._token = owner.cluster.visit_token
        self._template = self._new_template()
        self._run: tuple[tuple[int | None, int | None, float, int | None], SendRunWriter] | None = None
        """The last writer of single messages, and the parameters it was made for."""

    def write_batches(self, batches: Sequence[OutgoingBatch], *, numbered: bool, refusals_seen: int) -> list[bytes]:
        """Encode a SEND_PACKS request; with the producer id if `numbered`."""
        owner = self._owner
        return encode_send_packs(
            owner.client_id,
            owner.topic,
            owner.cluster.sent_addr,
            [batch.entry for batch in batches],
            *self._numbered_as(numbered=numbered),
            token=owner.cluster.visit_token,
            refusals_seen=refusals_seen,
        )

    def write_send_batch(
        self, messages: Sequence[PendingMessage], *, numbered: bool, refusals_seen: int
    ) -> list[bytes]:
        """Encode a SEND_BATCH request."""
        owner = self._owner
        return encode_send_batch(
            owner.client_id,
            owner.topic,
            owner.cluster.sent_addr,
            [
                BatchItem(one.partition.partition_id, one.payload, one.flag, one.msg_type, one.msg_time, one.sequence)
                for one in messages
            ],
            *self._numbered_as(numbered=numbered),
            token=owner.cluster.visit_token,
            refusals_seen=refusals_seen,
        )

    def write_single(self, one: PendingMessage, *, numbered: bool) -> bytes:
        """Encode a SEND_MESSAGE request, as the original's producers send it."""
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
            self._numbers.producer_id,
            self._numbers.epoch,
        )

    def run_writer(self, *, numbered: bool, timeout_s: float, block_bytes: int | None) -> SendRunWriter:
        """Return the writer of consecutive SEND_MESSAGE requests with the same timeout."""
        producer_id, epoch = self._numbered_as(numbered=numbered)
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

    def _numbered_as(self, *, numbered: bool) -> tuple[int | None, int | None]:
        """Return producer id and epoch; None each if not `numbered`."""
        producer_id = self._numbers.producer_id if numbered else None
        return producer_id, None if producer_id is None else self._numbers.epoch

    def _new_template(self) -> SendTemplate:
        owner = self._owner
        return SendTemplate(owner.client_id, owner.topic, owner.cluster.sent_addr, token=self._token)
