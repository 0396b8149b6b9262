"""The writer of a sender's requests.

The invariant: client id, topic and tokens are the same in all requests, and up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client.producer.messages.record_batch import PLAIN
from pytubemq.wire.batch.send_batches import encode_send_packs
from pytubemq.wire.fast.send_run import SendRunWriter
from pytubemq.wire.fast.sends import SendTemplate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.producer.messages.record_batch import RecordBatch
    from pytubemq.client.producer.sender_context import SenderContext
    from pytubemq.client.producer.sequence_numbers import SequenceNumbers
    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo


class RequestWriter:
    """Encodes the requests of one sender."""

    def __init__(self, context: SenderContext, numbers: SequenceNumbers) -> None:
        self._context = context
        self._numbers = numbers
        self._auth_info = context.cluster.auth_info_of(context.client_id)
        self._template = self._new_template()
        self._run: tuple[tuple[AuthorizedInfo, int | None, float, int | None], SendRunWriter] | None = None
        """The last writer of single messages, and the parameters it was made for."""

    def write_batches(self, batches: Sequence[RecordBatch], *, numbered: bool, refusals_seen: int) -> list[bytes]:
        """Encode a SEND_PACKS request; with the producer id if `numbered`."""
        context = self._context
        return encode_send_packs(
            context.client_id,
            context.topic,
            context.cluster.sent_addr,
            [(batch.partition.partition_id, batch.columns(), batch.sequence) for batch in batches],
            *self._numbered_as(numbered=numbered),
            auth_info=context.cluster.auth_info_of(context.client_id),
            refusals_seen=refusals_seen,
        )

    def write_single(self, one: RecordBatch) -> bytes:
        """Encode the SEND_MESSAGE request of a batch with one message, as the original's producers send it."""
        self._check_token()
        (payload,), headers = one.payloads_and_headers()
        flag, msg_type, msg_time = PLAIN if headers is None else headers[0]
        partition_id = one.partition.partition_id
        # Without numbers the request is as the original's producers send it.
        if self._numbers.producer_id is None:
            return self._template.encode(partition_id, payload, flag, msg_type, msg_time)
        numbers = self._numbers
        return self._template.encode(
            partition_id, payload, flag, msg_type, msg_time, one.sequence, numbers.producer_id, numbers.epoch
        )

    def run_writer(self, *, numbered: bool, timeout_s: float, block_bytes: int | None) -> SendRunWriter:
        """Return the writer of consecutive SEND_MESSAGE requests with the same timeout."""
        producer_id, epoch = self._numbered_as(numbered=numbered)
        # Requests differ in little but the payload; a writer serves as long as the rest is the same.
        key = self._current_auth_info(), producer_id, timeout_s, block_bytes
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
        # The Master gives out a new one now and then.
        if self._auth_info is not self._current_auth_info():
            self._auth_info = self._current_auth_info()
            self._template = self._new_template()

    def _current_auth_info(self) -> AuthorizedInfo:
        return self._context.cluster.auth_info_of(self._context.client_id)

    def _numbered_as(self, *, numbered: bool) -> tuple[int | None, int | None]:
        """Return producer id and epoch; None each if not `numbered`."""
        producer_id = self._numbers.producer_id if numbered else None
        return producer_id, None if producer_id is None else self._numbers.epoch

    def _new_template(self) -> SendTemplate:
        context = self._context
        return SendTemplate(context.client_id, context.topic, context.cluster.sent_addr, auth_info=self._auth_info)
