"""Discovery of the partitions of topics, and the producer's role at the Master.

The invariant: a topic that the Master has named once keeps its last known partitions while the Master names none
(its Brokers may just be restarting), so that messages wait for them instead of failing; but not once a Master that can
know it says that the topic is on no Broker any more, whether those run or not.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pytubemq.client.session.entry_reader import ENTRIES, PartitionBudget
from pytubemq.errors import Code, ConfigError, NotAllowedError, TubeError, UnavailableError, refused
from pytubemq.model.ids import UNDEFINED, Address, Partition
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES, HEARTBEAT_PERIOD_S, MAX_HEARTBEAT_WAIT_S, MAX_MESSAGE_BYTES
from pytubemq.model.missing_topic import topic_missing
from pytubemq.model.names import check_served_topic
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import (
    ApprovedClientConfig,
    CloseRequestP2M,
    CloseResponseM2P,
    HeartRequestP2M,
    HeartResponseM2P,
    RegisterRequestP2M,
    RegisterResponseM2P,
)
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.text.topic_strings import parse_topic_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.client.session.cluster_connection import Cluster
from pytubemq.client.session.membership import LongPollPause

NOT_KNOWN = -1
"""`brokerCheckSum` of a client that knows no Broker."""
SHORT_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class TopicRoutes:
    """The partitions and the limit of a topic, for producers."""

    topic: str
    partitions: tuple[Partition, ...]
    max_message_bytes: int


class RouteDiscovery:
    """Requests the partitions of topics from the Master, as a producer does."""

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self.client_id = cluster.client_id()
        self.topics = tuple(topics)
        self._cluster = cluster
        self._check_sum = NOT_KNOWN
        self._config_id = UNDEFINED
        self._default_max_bytes = DEFAULT_MAX_MESSAGE_BYTES
        self._named: frozenset[int] = frozenset()

    async def register(self) -> None:
        """Send RegisterRequestP2M."""
        response = await self._cluster.call_master(
            RegisterRequestP2M(
                client_id=self.client_id,
                topic_list=self.topics,
                broker_check_sum=NOT_KNOWN,
                host_name=self._cluster.host,
                appd_config=ApprovedClientConfig(config_id=self._config_id),
            ),
            RegisterResponseM2P,
            Method.PRODUCER_REGISTER_P2M,
        )
        self._cluster.learn_token(response.authorized_info, self.client_id)
        self._learn(response.broker_check_sum, response.broker_infos, response.appd_config)

    async def request_first_routes(self) -> dict[str, TopicRoutes]:
        """Return the routes after `register`: a Master that has just started may wait for its Brokers to come back."""
        held = self._cluster.master_has(Capability.HEARTBEAT_WAIT)
        return await self.request_routes(wait_s=MAX_HEARTBEAT_WAIT_S if held else 0.0)

    async def list_topics(self) -> tuple[str, ...]:
        """Return the names of all topics, sorted.

        Raises:
            ConfigError: the Master does not name them.
        """
        response = await self._cluster.call_master(
            HeartRequestP2M(
                client_id=self.client_id,
                broker_check_sum=self._check_sum,
                host_name=self._cluster.host,
                topic_list=self.topics,
                appd_config=ApprovedClientConfig(config_id=self._config_id),
                want_topic_names=True,
            ),
            HeartResponseM2P,
            Method.PRODUCER_HEARTBEAT_P2M,
        )
        self._cluster.learn_token(response.authorized_info, self.client_id)
        self._learn(response.broker_check_sum, response.broker_infos, response.appd_config)
        if not self._cluster.master_has(Capability.TOPIC_NAMES):
            raise ConfigError(
                "this Master cannot list its topics; only a pytubemq Master can",
                hint="name the topics",
            )
        return tuple(ENTRIES.read(response.topic_names, check_served_topic, "the Master's list of topics"))

    async def request_routes(self, *, wait_s: float = 0.0, deployed: bool = False) -> dict[str, TopicRoutes]:
        """Send HeartRequestP2M; return the topics' partitions now, or after a change within `wait_s`.

        `deployed` asks for those of Brokers that are away, too; the original's Master leaves them out all the same.
        """
        response = await self._cluster.call_master(
            HeartRequestP2M(
                client_id=self.client_id,
                broker_check_sum=self._check_sum,
                host_name=self._cluster.host,
                topic_list=self.topics,
                appd_config=ApprovedClientConfig(config_id=self._config_id),
                max_wait_ms=int(wait_s * 1000) if wait_s > 0 else None,
                want_deployed=True if deployed else None,
            ),
            HeartResponseM2P,
            Method.PRODUCER_HEARTBEAT_P2M,
            wait_s=wait_s,
        )
        self._cluster.learn_token(response.authorized_info, self.client_id)
        self._learn(response.broker_check_sum, response.broker_infos, response.appd_config)
        return self._parse_routes(response.topic_infos)

    async def goodbye(self) -> None:
        """Send CloseRequestP2M."""
        await self._cluster.call_master(
            CloseRequestP2M(client_id=self.client_id), CloseResponseM2P, Method.PRODUCER_CLOSE_P2M
        )

    def _learn(self, check_sum: int, brokers: Sequence[str], config: ApprovedClientConfig | None) -> None:
        if brokers:
            parsed = ENTRIES.read(brokers, self._cluster.parse_broker, "the Master's list of Brokers")
            self._cluster.learn_brokers(parsed)
            self._named = frozenset(broker.broker_id for broker in parsed)
        self._check_sum = check_sum
        if config is not None:
            self._config_id = config.config_id
            if config.max_msg_size:
                self._default_max_bytes = min(max(config.max_msg_size, 1), MAX_MESSAGE_BYTES)

    def _parse_routes(self, infos: Sequence[str]) -> dict[str, TopicRoutes]:
        found: dict[str, TopicRoutes] = {}
        what = "the Master's list of topics"
        budget = PartitionBudget(what)
        skip = partial(ENTRIES.skip, what)
        for info in ENTRIES.read(infos, partial(parse_topic_info, skip=skip), what):
            # a Broker without an address cannot be used
            brokers = [broker for broker in info.brokers if broker.broker_id in self._named]
            partitions = [partition for _, partition in budget.partitions(info.topic, brokers)]
            if partitions:
                found[info.topic] = TopicRoutes(
                    info.topic, tuple(sorted(partitions)), info.max_message_bytes or self._default_max_bytes
                )
        return found


class ProducerRole:
    """The role of a producer in its membership at the Master."""

    def __init__(
        self, cluster: Cluster, topic: str, on_routes: Callable[[TopicRoutes], None], *, patient: bool
    ) -> None:
        """`patient` waits for a topic that does not exist yet."""
        self._cluster = cluster
        self._topic = topic
        self._discovery = RouteDiscovery(cluster, (topic,))
        self._on_routes = on_routes
        self._patient = patient
        self._long_poll_pause = LongPollPause()
        self._known: TopicRoutes | None = None
        self._addresses: dict[int, Address] = {}
        self.client_id = self._discovery.client_id

    async def register(self) -> None:
        """Register, and learn the partitions, so that whoever is registered can send.

        Raises:
            NotAllowedError: the user may not send to the topic.
            NotFoundError: the topic has no partition, and this is the first time we ask.
            UnavailableError: it has, but no Broker takes messages of it now.
        """
        with _naming_produce(self._topic):
            await self._discovery.register()
            routes = await self._discovery.request_first_routes()
        while self._known is None and self._topic not in routes:
            if not self._patient:
                raise await self._missing_error()
            await asyncio.sleep(0.2)
            routes = await self._discovery.request_routes()
        self._update(routes)

    async def heartbeat(self) -> float:
        """Update the routes, at once after a change if the Master has a long poll, else every period."""
        held = self._cluster.master_has(Capability.HEARTBEAT_WAIT)
        before = asyncio.get_running_loop().time()
        with _naming_produce(self._topic):
            routes = await self._discovery.request_routes(wait_s=MAX_HEARTBEAT_WAIT_S if held else 0.0)
        if held and self._topic not in routes and self._known is not None and self._known.partitions:
            await self._drop_if_removed(self._known)
        self._update(routes)
        took_s = asyncio.get_running_loop().time() - before
        return self._long_poll_pause.pause_s(took_s) if held else max(SHORT_PAUSE_S, HEARTBEAT_PERIOD_S - took_s)

    async def goodbye(self) -> None:
        """Leave the Master."""
        await self._discovery.goodbye()

    async def _missing_error(self) -> TubeError:
        """Return the error for a topic without a partition; one that is deployed need not be created again."""
        deployed = await self._discovery.request_routes(deployed=True)
        if self._topic not in deployed:
            return topic_missing(self._topic, known=await known_topics(self._discovery))
        return UnavailableError(
            f"no Broker takes messages of topic {self._topic!r} now",
            hint=f"for the reason at each Broker:  pytubemq topic show {self._topic}",
            code=Code.SERVICE_UNAVAILABLE,
        )

    async def _drop_if_removed(self, known: TopicRoutes) -> None:
        """Drop the partitions of a topic that was removed; only a pytubemq Master distinguishes that from Brokers that
        restart."""
        if self._topic not in await self._discovery.request_routes(deployed=True):
            self._update({self._topic: replace(known, partitions=())})

    def _update(self, routes: dict[str, TopicRoutes]) -> None:
        found = routes.get(self._topic)
        if found is None:
            return
        addresses = {p.broker_id: self._cluster.address_of(p.broker_id) for p in found.partitions}
        if found == self._known and addresses == self._addresses:
            return
        self._known, self._addresses = found, addresses
        self._on_routes(found)


@contextmanager
def _naming_produce(topic: str) -> Iterator[None]:
    """Name the permission that a producer lacks, `produce`, where its Master refuses it for the lack of `describe`.

    The Master asks for `describe` alone, since readers request the partitions of topics in the same way; `produce`
    includes it. The error says no more than the Master's text.
    """
    try:
        yield
    except NotAllowedError as error:
        lacking = f" describe on topic {topic};"
        if lacking not in error.message:
            raise
        message = error.message.replace(lacking, f" produce on topic {topic};")
        message = message.replace(f" describe topic {topic}`", f" produce topic {topic}`")
        raise refused(error.code or Code.UNAUTHORIZED, message, hint=error.hint) from None


async def known_topics(discovery: RouteDiscovery) -> tuple[str, ...] | None:
    """Return the names of all topics for an error; None if the Master does not name them, or not now."""
    try:
        return await discovery.list_topics()
    except TubeError:
        return None
