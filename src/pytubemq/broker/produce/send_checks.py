"""Checks of every send before its messages are read, and the faults of one that fails them.

The invariant: the checks are made in the original's order; a client that passed a moment ago passes again without them
only while nothing has changed that they depend on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.broker import request_checks
from pytubemq.broker.members.caller_access import Action, produce_to
from pytubemq.core.refusal import Refusal, Refused
from pytubemq.core.request_fields import check_client_id
from pytubemq.core.sequences import MAX_SEQUENCE, ProducerMark
from pytubemq.errors import Code, CorruptError, NotFoundError
from pytubemq.model.durability import Durability
from pytubemq.model.topic import HISTORY_TOPIC
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES, attributes_fit
from pytubemq.wire.serialization.message_bytes import decode

if TYPE_CHECKING:
    from pytubemq.broker.produce.bulk_send import BulkCall
    from pytubemq.broker.state import BrokerState
    from pytubemq.broker.topics import ServedTopic
    from pytubemq.net.server.call import Call
    from pytubemq.wire.protocol.messages.broker import SendMessageRequestP2B
    from pytubemq.wire.protocol.messages.extension import SendPacksRequestP2B

    SendKind = type[SendMessageRequestP2B | SendPacksRequestP2B]

_new = tuple.__new__
"""Makes a named tuple in half the time of calling its class, which counts when done for every message."""
_MOST_SOURCES: Final = 10_000
"""Pairs of client id and topic that are remembered as admitted; beyond it all are forgotten, which costs time only."""


class Source(NamedTuple):
    """A client that may send to a topic."""

    served: ServedTopic
    from_memory: bool
    """True if the topic promises from memory."""


class SendChecks:
    """The checks of sends. Event loop only."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._sources: dict[tuple[str, str], Source] = {}
        """The admitted clients by topic, by the names as they arrive."""

    def source(self, call: Call, kind: SendKind, client_id: str, topic_name: str) -> Source:
        """Return the topic, if this client may send to it now.

        Raises:
            Refused: it may not.
        """
        state = self._state
        serving = state.serving
        if serving.write_stopped or not serving.started:
            serving.check_write()
        if state.access.checks_producers:
            self._check_access(call, kind, client_id.strip(), produce_to(topic_name.strip()))
        names = (client_id, topic_name)
        source = self._sources.get(names)
        # A topic whose settings have changed is another object, one that was taken away is none.
        if source is None or state.topics.get(source.served.config.name) is not source.served:
            source = self._admit(client_id, topic_name)
            if len(self._sources) >= _MOST_SOURCES:
                self._sources.clear()
            self._sources[names] = source
        return source

    def _check_access(self, call: Call, kind: SendKind, client_id: str, action: Action) -> None:
        """Refuse a producer that is not admitted."""
        access, clock = self._state.access, self._state.clock
        now_s = clock.now_s()
        if access.remembers_producers and access.is_admitted(call.connection, client_id, action, now_s=now_s):
            return
        # Only now is the request read once more, for the tokens, which the fast way leaves out.
        info = decode(kind, call.request.body).auth_info
        access.check(
            call.connection, info, client_id, (action,), now_s=now_s, wall_s=clock.wall_ms() / 1000, producing=True
        )

    def bulk_source(self, bulk: BulkCall, kind: SendKind, items: int, most_items: int) -> ServedTopic:
        """Return the topic of a request with many messages, unless all of them are refused.

        Args:
            bulk: the request, not answered yet.
            kind: the request's class.
            items: how many record batches it has, or one more than it may.
            most_items: how many it may have.

        Raises:
            Refused: none of it may be taken.
        """
        served = self.source(bulk.call, kind, bulk.client_id, bulk.topic).served
        if not items:
            raise Refused(Code.BAD_REQUEST, "the request has no record batch")
        if items > most_items:
            raise Refused(
                Code.BAD_REQUEST, f"the request has more than {most_items} record batches, the largest number"
            )
        if bulk.order is not None and (broken := bulk.order.find_refusal()) is not None:
            raise Refused(*broken)
        return served

    def _admit(self, client_id: str, topic_name: str) -> Source:
        check_client_id(client_id)
        if topic_name.strip() == HISTORY_TOPIC:
            raise Refused(Code.FORBIDDEN, f"topic {HISTORY_TOPIC} takes no messages from producers")
        served = request_checks.topic(topic_name, self._state.topics)
        request_checks.open_for_writing(served)
        if not served.config.accept_publish:
            # the original leaves this to the Master, and a producer with old routes gets through
            raise Refused(Code.FORBIDDEN, f"topic {served.config.name} is closed for writing (acceptPublish is false)")
        durability = self._state.store.durability_of(served.config.name)
        return Source(served, durability is Durability.MEMORY)

    def check_message(self, served: ServedTopic, partition_id: int, payload: bytes, flag: int) -> None:
        """Refuse a message that cannot be taken.

        Raises:
            Refused: there is no such partition, or something is wrong with the message.
        """
        refusal = self.partition_refusal(served, partition_id) or message_fault(served, payload, flag)
        if refusal is not None:
            raise Refused(*refusal)

    def partition_refusal(self, served: ServedTopic, partition_id: int) -> Refusal | None:
        """Return the refusal of sends to this partition; None if it accepts them."""
        try:
            request_checks.partition(served, partition_id)
        except Refused as refused:
            return refused.refusal
        return None


def message_fault(served: ServedTopic, payload: bytes, flag: int) -> Refusal | None:
    """Return the fault of a message itself; None if it has none."""
    fault = size_fault(served, len(payload))
    if fault is None and flag & HAS_ATTRIBUTES and not attributes_fit(payload):
        fault = attributes_fault(flag, len(payload))
    return fault


def size_fault(served: ServedTopic, size_bytes: int) -> Refusal | None:
    """Return the fault of a message's size; None if it has none."""
    if not size_bytes:
        return Refusal(Code.BAD_REQUEST, "the message is empty")
    if size_bytes > served.max_payload_bytes:
        return Refusal(
            Code.BAD_REQUEST,
            f"the message has {size_bytes} bytes, topic {served.config.name} takes {served.max_payload_bytes}",
        )
    return None


def attributes_fault(flag: int, size_bytes: int) -> Refusal:
    """Return the refusal of attributes that do not fit: no consumer could read them.

    The original accepts the message, and its consumers drop it silently.
    """
    return Refusal(
        Code.BAD_REQUEST, f"the message's flag {flag} claims attributes that do not fit into its {size_bytes} bytes"
    )


def partition_fault(error: CorruptError | NotFoundError) -> Refusal:
    """Return the refusal of messages whose partition is not sound: its files are damaged, or its topic was removed."""
    if isinstance(error, NotFoundError):
        return Refusal(Code.FORBIDDEN, error.message)
    return Refusal(Code.INTERNAL_SERVER_ERROR, error.message)


def mark(producer_id: int | None, epoch: int | None, sequence: int | None, messages: int = 1) -> ProducerMark | None:
    """Return the numbers by which these messages are known if they are sent again; None if their producer has none.

    Raises:
        Refused: numbers that no producer uses, of the last message too.
    """
    if producer_id is None or sequence is None:
        return None
    if producer_id < 1 or sequence < 0 or (epoch is not None and epoch < 0):
        raise Refused(
            Code.BAD_REQUEST,
            f"producer id {producer_id} must be at least 1, epoch {epoch} and sequence {sequence} at least 0",
        )
    if sequence > MAX_SEQUENCE - messages + 1:
        raise Refused(
            Code.BAD_REQUEST,
            f"{messages} messages from sequence {sequence} on exceed {MAX_SEQUENCE}, the largest sequence",
        )
    return _new(ProducerMark, (producer_id, epoch or 0, sequence))
