"""Requests with many messages of one topic: the part that all kinds share from their arrival to the journal.

The invariant: a refused or dropped request is first counted among its producer's, so that none of the producer's later
messages is stored before it is sent again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.broker.append.send_order import SendOrder

if TYPE_CHECKING:
    from pytubemq.broker.state import BrokerState
    from pytubemq.core.refusal import Refusal
    from pytubemq.net.server.call import Call


class BulkRequest(Protocol):
    """The fields of every bulk request that identify its producer."""

    @property
    def client_id(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def refusals_seen(self) -> int | None: ...


class RefusalEncoder(Protocol):
    """An encoder of the response in which one code applies to all messages."""

    def __call__(self, *, success: bool, err_code: int, err_msg: str) -> bytes: ...


class BulkCall:
    """A bulk request that is not answered yet."""

    __slots__ = ("_encode_refusal", "call", "client_id", "order", "state", "topic")

    def __init__(self, state: BrokerState, call: Call, request: BulkRequest, encode_refusal: RefusalEncoder) -> None:
        seen = request.refusals_seen
        self.state = state
        self.call = call
        self.client_id = request.client_id
        self.topic = request.topic
        # A producer that does not count refusals relies on no order behind one.
        self.order = None if seen is None else SendOrder(call.connection, request.client_id, request.topic, seen)
        self._encode_refusal = encode_refusal

    def refuse(self, refusal: Refusal) -> None:
        """Refuse all of its messages."""
        if self.order is not None:
            # Before the response: a batch that is already on its way must find it.
            self.order.record_refusal(refusal.code)
        self.state.counters.record_refused_send(refusal.code)
        self.call.reply(self._encode_refusal(success=False, err_code=refusal.code, err_msg=refusal.text))

    def drop(self) -> None:
        """Drop it, as nobody waits for its response any more."""
        if self.order is not None:
            # As a refusal: the producer sends it again, and what came behind must not be stored before it.
            self.order.record_drop()
        self.call.drop()


class BulkSend:
    """A bulk request that waits for the journal; its kinds define the staging and the response."""

    __slots__ = ("_bulk", "order", "size_bytes")

    confirmations = 0

    def __init__(self, bulk: BulkCall, size_bytes: int) -> None:
        self.order = bulk.order
        self.size_bytes = size_bytes
        self._bulk = bulk

    @property
    def deadline_s(self) -> float:
        return self._bulk.call.deadline_s

    def refuse(self, refusal: Refusal) -> None:
        self._bulk.refuse(refusal)

    def expire(self) -> None:
        self._bulk.drop()
