"""The registered producers, and the partitions that they can write to.

The invariant: a producer learns of a partition only while its Broker is online and has reported the topic. Only one
that requests where its topics are deployed, because it wants to read all of them, learns of absent Brokers too.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from pytubemq.core.refusal import Refused
from pytubemq.core.request_fields import check_client_id, check_host_name
from pytubemq.errors import Code
from pytubemq.master import responses
from pytubemq.master.client_connections import ClientConnections, Connection, origin_of
from pytubemq.master.held_heartbeats import HeldHeartbeats, allowed_wait_s
from pytubemq.master.registration_checks import check_other_text, check_produced
from pytubemq.model.limits import MAX_UNKNOWN_NAMES
from pytubemq.wire.protocol.messages.master import (
    CloseRequestP2M,
    CloseResponseM2P,
    HeartRequestP2M,
    HeartResponseM2P,
    RegisterRequestP2M,
    RegisterResponseM2P,
)
from pytubemq.wire.serialization.message_bytes import encode
from pytubemq.wire.text.topic_strings import TopicInfo, format_topic_info

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pytubemq.master.access.tokens import Tokens
    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.client_admission import ClientAdmission
    from pytubemq.master.settings import MasterSettings
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Call
    from pytubemq.wire.text.topic_strings import TopicBroker

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Producer:
    """A registered producer; `last_answer` is the content of its last response, None if that may not have arrived."""

    client_id: str
    host: str
    deadline_s: float
    topics: tuple[str, ...] = ()
    last_answer: object = None
    over_tls: bool = False


class Producers:
    """All registered producers."""

    def __init__(
        self,
        catalogue: Catalogue,
        brokers: Brokers,
        settings: MasterSettings,
        clock: Clock,
        tokens: Tokens,
        admission: ClientAdmission,
    ) -> None:
        self.by_id: dict[str, Producer] = {}
        self.timeouts = 0
        """The producers that were lost, or silent for too long, since the start of this Master."""
        self.held = HeldHeartbeats(limit=settings.max_held_heartbeats)
        self.sees_topic: Callable[[tuple[str, str], str], bool] = lambda key, topic: True
        """Returns whether a topic may be named to a client that asks which there are."""
        self._catalogue = catalogue
        self._brokers = brokers
        self._settings = settings
        self._clock = clock
        self._tokens = tokens
        self._admission = admission
        self._connections = ClientConnections(self._lost)

    def register(self, call: Call, request: RegisterRequestP2M) -> RegisterResponseM2P:
        """Serve method 1: respond with the full list of Brokers, whatever the producer knows."""
        client_id = check_client_id(request.client_id, in_lists=True)
        host = check_host_name(request.host_name)
        topics = check_produced(request.topic_list, client=client_id)
        check_other_text(call.size_bytes, request.topic_list, client=client_id)
        self._connections.check_room(client_id, call.connection, most=self._settings.max_clients_per_connection)
        origin = origin_of(call.peer, call.connection)
        self._admission.check(producer_key(client_id), call.size_bytes, origin)
        self._admission.enter(producer_key(client_id), call.size_bytes, origin)
        self.by_id[client_id] = Producer(
            client_id, host, self._deadline_s(), self._known(topics), over_tls=call.connection.is_tls
        )
        self.held.release(client_id)
        self._connections.record_use(client_id, call.connection)
        return RegisterResponseM2P(
            success=True,
            err_code=Code.SUCCESS,
            err_msg=responses.OK,
            broker_check_sum=self._catalogue.broker_checksum,
            broker_infos=responses.broker_infos(self._catalogue.brokers.values(), over_tls=call.connection.is_tls),
            authorized_info=self._tokens.of_client(producer_key(client_id)),
            appd_config=responses.approved_config(self._catalogue.cluster, request.appd_config),
        )

    def heartbeat(self, call: Call, request: HeartRequestP2M) -> None:
        """Serve method 2: respond with the partitions of the topics; held while nothing changed since the last."""
        client_id = check_client_id(request.client_id, in_lists=True)
        check_host_name(request.host_name)
        topics = check_produced(request.topic_list, client=client_id)
        producer = self.by_id.get(client_id)
        if producer is None:
            raise Refused(Code.HB_NO_NODE, f"producer {client_id} is not registered, register first")
        producer.deadline_s = self._deadline_s()
        if self._connections.record_use(client_id, call.connection):
            self.held.release(client_id)
            producer.last_answer = None
        self._admission.record_report(producer_key(client_id), call.size_bytes)
        if topics != producer.topics:
            producer.topics = self._known(topics)
        topics = producer.topics
        wait_s = allowed_wait_s(
            request.max_wait_ms, left_s=call.deadline_s - self._clock.now_s(), longest_s=self._settings.heartbeat_wait_s
        )
        self.held.hold(client_id, wait_s, lambda must: self._respond(producer, call, request, topics, must=must))

    def close(self, call: Call, request: CloseRequestP2M) -> CloseResponseM2P:
        """Serve method 3; an unknown producer is closed all the same."""
        client_id = check_client_id(request.client_id, in_lists=True)
        self._release(client_id)
        return CloseResponseM2P(success=True, err_code=Code.SUCCESS, err_msg=responses.OK)

    def make_room(self, client_id: str) -> None:
        """End a registration so that another client has room; the producer may register again."""
        self._release(client_id)

    def connection_lost(self, connection: Connection) -> None:
        """Record that a connection broke."""
        self._connections.close(connection)

    def tick(self, now_s: float) -> None:
        """Release producers whose heartbeats are overdue."""
        for producer in list(self.by_id.values()):
            if producer.deadline_s <= now_s:
                self.timeouts += 1
                self._release(producer.client_id)

    def due_s(self) -> float | None:
        """Return when the next producer's heartbeat is overdue; None if there is none."""
        return min((producer.deadline_s for producer in self.by_id.values()), default=None)

    def _respond(
        self, producer: Producer, call: Call, request: HeartRequestP2M, topics: tuple[str, ...], *, must: bool
    ) -> bool:
        if self.by_id.get(producer.client_id) is not producer:
            text = f"producer {producer.client_id} is no longer registered, register again"
            call.reply(encode(refused_heartbeat(Code.HB_NO_NODE, text)))
            return True
        catalogue = self._catalogue
        where = self._brokers.topics.deployed if request.want_deployed else self._brokers.topics.publishing
        infos = tuple(info for topic in topics if (info := self._topic_info(topic, where)) is not None)
        say = (topics, infos, catalogue.broker_checksum, catalogue.cluster.stamp.serial_id)
        if not must and self._nothing_new(producer, request, say):
            return False
        if not request.want_deployed:  # the producer does not choose partitions by such a response
            producer.last_answer = say
        brokers_changed = request.broker_check_sum != catalogue.broker_checksum
        response = HeartResponseM2P(
            success=True,
            err_code=Code.SUCCESS,
            err_msg=responses.OK,
            broker_check_sum=catalogue.broker_checksum,
            topic_infos=infos,
            broker_infos=(
                responses.broker_infos(catalogue.brokers.values(), over_tls=call.connection.is_tls)
                if brokers_changed
                else ()
            ),
            authorized_info=self._tokens.of_client(producer_key(producer.client_id)),
            appd_config=responses.approved_config(catalogue.cluster, request.appd_config),
            topic_names=self._visible(producer) if request.want_topic_names else (),
        )
        call.reply(encode(response))
        return True

    def _visible(self, producer: Producer) -> tuple[str, ...]:
        """Return the names of the topics that a producer may know of."""
        key = producer_key(producer.client_id)
        return tuple(topic for topic in sorted(self._catalogue.topics) if self.sees_topic(key, topic))

    def _nothing_new(self, producer: Producer, request: HeartRequestP2M, say: object) -> bool:
        """True if the response would bring a waiting producer nothing new.

        Right after a start of the Master the Brokers are still coming back, so empty routes are no news."""
        if (
            producer.last_answer is None
            and not request.want_deployed
            and any(map(self._brokers.topics.awaited, producer.topics))
        ):
            return True
        return say == producer.last_answer and request.broker_check_sum == self._catalogue.broker_checksum

    def _topic_info(self, name: str, where: Callable[[str], tuple[TopicBroker, ...]]) -> str | None:
        topic = self._catalogue.topics.get(name)
        places = where(name)
        if topic is None or not places:
            return None
        size = topic.max_message_bytes
        return format_topic_info(
            TopicInfo(name, places, None if size == self._catalogue.cluster.max_message_bytes else size)
        )

    def _known(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """Return the same names as the catalogue's own strings, so that many producers share one text in memory.

        Of those that no record has, the first few: they are there to be noticed when the topic is created. Others are
        looked for anew with each heartbeat, which names them.
        """
        records = self._catalogue.topics
        unknown = set(islice((topic for topic in topics if topic not in records), MAX_UNKNOWN_NAMES))
        return tuple(
            records[topic].topic if topic in records else topic
            for topic in topics
            if topic in records or topic in unknown
        )

    def _deadline_s(self) -> float:
        return self._clock.now_s() + self._settings.producer_silence_s

    def _lost(self, key: Hashable) -> None:
        producer = self.by_id.get(str(key))
        self.held.drop(key)
        if producer is not None:
            producer.last_answer = None
            producer.deadline_s = min(producer.deadline_s, self._clock.now_s() + self._settings.lost_connection_grace_s)

    def _release(self, client_id: str) -> None:
        self.by_id.pop(client_id, None)
        self._admission.leave(producer_key(client_id))
        self._connections.forget(client_id)
        self.held.release(client_id)


def producer_key(client_id: str) -> tuple[str, str]:
    """Return the key of a producer among all clients."""
    return ("producer", client_id)


def refused_heartbeat(code: int, text: str) -> HeartResponseM2P:
    """Return a heartbeat's response with a code other than 200."""
    return HeartResponseM2P(success=False, err_code=code, err_msg=text, broker_check_sum=-1)
