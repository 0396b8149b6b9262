"""The entry to the client: `connect` and the `Tube` that it returns.

The invariant: every producer, consumer and reader of a `Tube` ends with it at the latest.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pytubemq.client.consumer.client_balance.consumer import BalanceConsumer
from pytubemq.client.consumer.client_balance.options import META_CHECK_S, NODE_WAIT_S, BalanceOptions
from pytubemq.client.consumer.consumer import Consumer
from pytubemq.client.consumer.push_consumer import Handler, PushConsumer
from pytubemq.client.group_resets import reset_group
from pytubemq.client.options import (
    Bound,
    ConnectOptions,
    ConsumerOptions,
    FirstConnect,
    OnError,
    OnMalformed,
    ProducerOptions,
    PushOptions,
    Start,
    check_filters,
    check_topics,
)
from pytubemq.client.producer.producer import Producer
from pytubemq.client.reader.reader import Reader
from pytubemq.client.session.cluster import Cluster
from pytubemq.client.session.metadata import MetadataClient
from pytubemq.errors import ClosedError, TubeError
from pytubemq.model.ids import Address, BrokerInfo, Partition
from pytubemq.model.limits import (
    CONFIRM_TIMEOUT_S,
    DEFAULT_REQUEST_TIMEOUT_S,
    PRODUCER_BUFFER_BYTES,
    PRODUCER_BUFFER_MESSAGES,
)
from pytubemq.model.names import check_group
from pytubemq.net.client.masters import parse_masters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.partition_state import Known, PartitionLook
    from pytubemq.client.session.events import EventQueue
    from pytubemq.wire.protocol.extensions import Capability

CLOSE_MARGIN_S: Final = 5.0
"""Seconds to close a client besides delivering its messages: for leaving the servers and the end of tasks."""


def connect(
    masters: str | Sequence[Address],
    *,
    first_connect: FirstConnect = "fail",
    request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
    client_name: str = "",
    known: Known | None = None,
) -> Tube:
    """Return a connection to a cluster, for `async with`.

    Args:
        masters: `host:port[,host:port...]`; the port may be left out (8715).
        first_connect: "fail" raises at once when no Master answers, and when a producer's topic does not exist;
            "wait" waits for both.
        request_timeout_s: how long any one request may take.
        client_name: shown in client ids, to find a program in the servers' lists.
        known: what another connection to the cluster had learned (`Tube.known`): then no Master is asked before that is
            needed. For the processes of one job; it holds the cluster's visit token.

    Raises:
        FormatError: an address is malformed.
        ConfigError: an option makes no sense.
    """
    addresses = parse_masters(masters) if isinstance(masters, str) else tuple(masters)
    return Tube(
        addresses,
        ConnectOptions(
            first_connect=first_connect, request_timeout_s=request_timeout_s, client_name=client_name, known=known
        ),
    )


class Tube:
    """A connection to a cluster; makes producers, consumers and readers."""

    def __init__(self, masters: Sequence[Address], options: ConnectOptions) -> None:
        """Use `connect`."""
        self._masters = tuple(masters)
        self._options = options
        self._cluster: Cluster | None = None
        self._metadata: MetadataClient | None = None
        self._clients = _OpenClients()

    async def __aenter__(self) -> Tube:
        """Connect to a Master.

        Raises:
            UnreachableError: none answers (unless `first_connect` is "wait"); the text names each with its reason.
        """
        if self._cluster is not None:
            raise ClosedError("a connection can be entered once", hint="call connect() again")
        cluster = self._cluster = Cluster(self._masters, self._options)
        try:
            await cluster.open()
        except BaseException:
            await cluster.close()
            raise
        self._metadata = MetadataClient(cluster, retry_for_s=self._options.request_timeout_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its clients, all at once, then the connections. Idempotent, bounded in time.

        A failure of one leaves no other open; the first is raised at the end.
        """
        cluster = self._cluster
        if cluster is None or cluster.closed:
            return
        failures: Sequence[BaseException] = ()
        try:
            failures = await self._clients.close()  # whatever is still open then ends with the connections
            if self._metadata is not None:
                with contextlib.suppress(TubeError, TimeoutError):
                    await self._metadata.close()
        finally:
            await cluster.close()
        for error in failures:
            raise error

    def producer(
        self,
        topic: str,
        *,
        linger_s: float = 0.0,
        max_buffer_messages: int = PRODUCER_BUFFER_MESSAGES,
        max_buffer_bytes: int = PRODUCER_BUFFER_BYTES,
        delivery_timeout_s: float = 60.0,
        close_timeout_s: float = 10.0,
        batching: bool = True,
        idempotent: bool = True,
    ) -> Producer:
        """Return a producer of one topic, for `async with`; inside the block it is ready to send.

        Args:
            topic: its name.
            linger_s: how long a message may wait for others to travel with; 0 sends what one loop turn submits.
            max_buffer_messages: messages submitted and not yet answered.
            max_buffer_bytes: their payload.
            delivery_timeout_s: how long one message is tried before its future fails with the last cause.
            close_timeout_s: how long leaving the block may wait for messages to be delivered.
            batching: False sends every message in a request of its own, as the original does.
            idempotent: number the messages, so that a pytubemq Broker drops repeats of what it has already.
        """
        options = ProducerOptions(
            linger_s=linger_s,
            max_buffer_messages=max_buffer_messages,
            max_buffer_bytes=max_buffer_bytes,
            delivery_timeout_s=delivery_timeout_s,
            close_timeout_s=close_timeout_s,
            batching=batching,
            idempotent=idempotent,
        )
        return self._clients.add(Producer(self._open(), topic, options), close_timeout_s=close_timeout_s)

    def consumer(
        self,
        group: str,
        topic: str,
        *topics: str,
        start: Start = Start.LATEST,
        filters: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        confirm_timeout_s: float | None = CONFIRM_TIMEOUT_S,
        close_timeout_s: float = 5.0,
        fetch_interval_s: float = 0.0,
        max_messages_per_s: float | None = None,
        max_bytes_per_s: float | None = None,
        bound: Bound | None = None,
    ) -> Consumer:
        """Return a consumer of a group, for `async with`.

        Args:
            group: its name; the members of a group share the partitions.
            topic: a topic, and `topics` more of them; all members of a group read the same ones.
            start: where the group begins in a partition in which it has confirmed nothing yet.
            filters: message types to read, per topic or one list for all; None reads everything.
            confirm_timeout_s: a batch not settled for so long is given back and comes again; None: never.
            close_timeout_s: how long leaving the block may take.
            fetch_interval_s: the least time between two fetches from one partition.
            max_messages_per_s: how many messages this consumer takes on average, of all its partitions together.
            max_bytes_per_s: how many bytes of payload, likewise.
            bound: have the whole group begin at given offsets.
        """
        names = check_topics((topic, *topics))
        options = ConsumerOptions(
            group=check_group(group),
            topics=names,
            filters=check_filters(names, filters),
            start=start,
            confirm_timeout_s=confirm_timeout_s,
            close_timeout_s=close_timeout_s,
            fetch_interval_s=fetch_interval_s,
            max_messages_per_s=max_messages_per_s,
            max_bytes_per_s=max_bytes_per_s,
            bound=bound,
        )
        return self._clients.add(self._consumer(options), close_timeout_s=close_timeout_s)

    def push_consumer(
        self,
        group: str,
        topic: str,
        *topics: str,
        handler: Handler,
        workers: int = 8,
        by_message: bool = False,
        on_error: OnError = "retry",
        max_messages: int = 500,
        max_wait_s: float = 1.0,
        max_bytes: int | None = None,
        start: Start = Start.LATEST,
        filters: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        close_timeout_s: float = 5.0,
        fetch_interval_s: float = 0.0,
        max_messages_per_s: float | None = None,
        max_bytes_per_s: float | None = None,
        bound: Bound | None = None,
    ) -> PushConsumer:
        """Return a consumer of a group that calls `handler` with what comes, for `async with`.

        A batch is confirmed when its handler has returned. Batches of one partition are handled one after the other,
        those of several at the same time. Heartbeats go on however long a handler takes, and its batch stays with it.

        Args:
            group, topic, topics, start, filters: as for `consumer`, and so are the limits and `bound`.
            handler: a function, plain (it runs in a thread) or `async`, of a `Batch`; what it returns is ignored.
            workers: most handlers at a time.
            by_message: call it with one `Message` after the other instead; the batch is confirmed after the last.
            on_error: when it raises: "retry" has the whole batch come again after a pause that grows, "skip" confirms
                it all the same (with `by_message` only the one message is skipped), "stop" ends this consumer,
                and `wait` raises what the handler raised. Each is logged and told as `HandlerFailed`.
            max_messages, max_wait_s, max_bytes: what a batch may be, as for `Consumer.batches`.
            close_timeout_s: how long leaving the block waits for running handlers.
        """
        names = check_topics((topic, *topics))
        options = ConsumerOptions(
            group=check_group(group),
            topics=names,
            filters=check_filters(names, filters),
            start=start,
            confirm_timeout_s=None,
            close_timeout_s=close_timeout_s,
            fetch_interval_s=fetch_interval_s,
            max_messages_per_s=max_messages_per_s,
            max_bytes_per_s=max_bytes_per_s,
            bound=bound,
        )
        calling = PushOptions(
            workers=workers,
            by_message=by_message,
            on_error=on_error,
            max_messages=max_messages,
            max_bytes=max_bytes,
            max_wait_s=max_wait_s,
        )
        push = PushConsumer(self._consumer(options, kind="Push"), handler, calling)
        return self._clients.add(push, close_timeout_s=close_timeout_s)

    def balance_consumer(
        self,
        group: str,
        topic: str,
        *topics: str,
        node_id: int | None = None,
        source_count: int | None = None,
        start: Start = Start.LATEST,
        filters: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        manual: bool = False,
        confirm_timeout_s: float | None = None,
        close_timeout_s: float = 5.0,
        fetch_interval_s: float = 0.0,
        max_messages_per_s: float | None = None,
        max_bytes_per_s: float | None = None,
        meta_check_s: float = META_CHECK_S,
        node_wait_s: float = NODE_WAIT_S,
    ) -> BalanceConsumer:
        """Return a consumer of a group whose members divide the partitions among themselves, for `async with`.

        Node 0 of 2 reads one half of the partitions and node 1 the other, whether both run or not; no partition moves
        to another node when one is away. With `manual` the caller connects to partitions, and sees to it that every
        one has a reader.

        Args:
            group: its name; all its members are balanced in this way.
            topic: a topic, and `topics` more of them; all members of a group read the same ones.
            node_id: which member this is, from 0 to source_count - 1.
            source_count: how many members the group has; all give the same.
            start: where the group begins in a partition in which it has confirmed nothing yet.
            filters: message types to read, per topic or one list for all; None reads everything.
            manual: connect to nothing on its own.
            confirm_timeout_s: a batch not settled for so long is given back and comes again; None: never.
            close_timeout_s: how long leaving the block may take.
            fetch_interval_s: the least time between two fetches from one partition.
            max_messages_per_s: how many messages this consumer takes on average, of all its partitions together.
            max_bytes_per_s: how many bytes of payload, likewise.
            meta_check_s: how often the Master is asked for partitions, at most.
            node_wait_s: how long another member with our node_id is waited for on entering; it may be dead.
        """
        names = check_topics((topic, *topics))
        options = BalanceOptions(
            group=check_group(group),
            topics=names,
            filters=check_filters(names, filters),
            start=start,
            confirm_timeout_s=confirm_timeout_s,
            close_timeout_s=close_timeout_s,
            fetch_interval_s=fetch_interval_s,
            max_messages_per_s=max_messages_per_s,
            max_bytes_per_s=max_bytes_per_s,
            node_id=node_id,
            source_count=source_count,
            manual=manual,
            meta_check_s=meta_check_s,
            node_wait_s=node_wait_s,
        )
        made = BalanceConsumer(self._open(), self._open_metadata(), options)
        return self._clients.add(made, close_timeout_s=close_timeout_s)

    def reader(
        self,
        partition: Partition | str,
        *,
        start: int | Start | str | datetime = Start.EARLIEST,
        end: int | Start | str | datetime | None = None,
        end_exists: bool = False,
        on_malformed: OnMalformed = "raise",
        retry_for_s: float = 60.0,
        filters: Sequence[str] | None = None,
    ) -> Reader:
        """Return a reader of [start, end) of one partition, for `async with`; it touches no group.

        Args:
            partition: a partition, or its key `brokerId:topic:partitionId`.
            start: an offset, EARLIEST, LATEST (also as texts: "earliest"), or a time: the first message appended then
                or later; a time without a zone is one of this machine's clock.
            end: an offset, LATEST or a time (as they are when the block is entered), or None to go on forever.
            end_exists: the partition is known to reach as far as `end`: if it does not (any more), that is an error
                instead of a reason to wait.
            on_malformed: for a message whose payload does not contain the attributes that it claims: "raise" ends the
                range there with an error, "raw" hands it out with its whole payload as body (`ReadBatch.malformed`).
            retry_for_s: how long a Broker that is away is waited for.
            filters: message types to read; None reads everything. Batches may then be empty.
        """
        partition = Partition.parse(partition) if isinstance(partition, str) else partition
        chosen = check_filters((partition.topic,), filters)
        reader = Reader(
            self._open(),
            self._open_metadata(),
            partition,
            start=start,
            end=end,
            end_exists=end_exists,
            on_malformed=on_malformed,
            retry_for_s=retry_for_s,
            filters=chosen.get(partition.topic, frozenset()),
        )
        return self._clients.add(reader)

    @property
    def known(self) -> Known:
        """The state to pass on to another process, for `connect(known=...)`."""
        return self._open().known

    def learn(self, known: Known) -> None:
        """Take over the state of another connection to the cluster."""
        self._open().learn(known)

    async def partitions_of(self, topics: Sequence[str]) -> dict[str, list[Partition]]:
        """Return all partitions of several topics at once, as `partitions`; a topic that does not exist is left out."""
        return await self._open_metadata().partitions_of(topics)

    async def topics(self) -> list[str]:
        """Return the names of all topics, sorted.

        Raises:
            ConfigError: the Master cannot tell (Java Masters).
        """
        return list(await self._open_metadata().topic_names())

    async def partitions(self, topic: str) -> list[Partition]:
        """Return all partitions of the topic, sorted, also those of Brokers that are away now.

        A Master of the original names only those on Brokers that are up.

        Raises:
            NotFoundError: there is no such topic.
        """
        return await self._open_metadata().partitions(topic)

    async def offsets(
        self, partitions: Iterable[Partition], *, at: datetime | None = None
    ) -> dict[Partition, tuple[int, int]]:
        """Return the first readable offset of each partition, and the one its next message gets.

        With `at` the first one is that of the first message appended then or later (the next one if there is none);
        a time without a zone is one of this machine's clock.

        Raises:
            NotFoundError: one of them does not exist.
            UnreachableError: a Broker that has some of them is away; the text names it.
            ConfigError: its Broker cannot tell (Java Brokers).
        """
        return await self._open_metadata().offsets(partitions, at=at)

    async def look(
        self, partitions: Iterable[Partition], *, at: datetime | None = None, group: str | None = None
    ) -> dict[Partition, PartitionLook]:
        """Return the state of each partition at its Broker: its ends, size, offset at a time, and a group's position.

        Raises: as `offsets`.
        """
        return await self._open_metadata().partition_states(partitions, at=at, group=group)

    async def capabilities(self, partitions: Iterable[Partition]) -> dict[int, Capability]:
        """Return the capabilities of each Broker of these partitions, beyond those of the original.

        Raises:
            TubeError: a Broker is away.
        """
        return await self._open_metadata().capabilities(partitions)

    async def reset_group(
        self,
        group: str,
        topic: str,
        to: Start | str | datetime | int,
        *,
        partitions: Iterable[Partition] | None = None,
        dry_run: bool = False,
    ) -> dict[Partition, tuple[int | None, int]]:
        """Move a group to another place in a topic; members that are reading go on there at once.

        Per partition the offset where the group was, None for nowhere, and the one where it is now.

        Args:
            group: its name; a group that nobody knows yet will begin there.
            topic: the topic.
            to: Start.EARLIEST or Start.LATEST, also as texts ("earliest"); a time, for the first message appended then
                or later (of this machine's clock if it has no zone); or the offset of a message, which every one of the
                partitions must have.
            partitions: some of the topic's; all when None.
            dry_run: tell what would happen, and change nothing.

        Raises:
            NotFoundError: there is no such topic.
            BadRequestError: a partition does not have this offset; nothing was moved.
            ConfigError: its Broker cannot (Java Brokers), or an argument makes no sense.
        """
        return await reset_group(
            self._open(), self._open_metadata(), group, topic, to, partitions=partitions, dry_run=dry_run
        )

    def events(self) -> EventQueue:
        """Return a queue of events: Connected, Lost, Rebalanced, Throttled, SlowConsumer, ConfirmFailed, PositionMoved,
        Skipped, HandlerFailed."""
        return self._open().events

    @property
    def brokers(self) -> list[BrokerInfo]:
        """The Brokers known so far."""
        known = self._open().brokers
        return [BrokerInfo(broker_id, address) for broker_id, address in sorted(known.items())]

    def _open(self) -> Cluster:
        if self._cluster is None:
            raise ClosedError("the connection is not open", hint="use it inside `async with connect(...) as tube`")
        self._cluster.check_usable()
        return self._cluster

    def _open_metadata(self) -> MetadataClient:
        """Return the metadata client of an open connection."""
        self._open()
        assert self._metadata is not None  # it is made when the connection is open
        return self._metadata

    def _consumer(self, options: ConsumerOptions, *, kind: str = "Pull") -> Consumer:
        return Consumer(self._open(), self._open_metadata(), options, kind=kind)


class _Client(Protocol):
    """A producer, a consumer of any kind, a reader."""

    @property
    def ended(self) -> bool:
        """True if it was closed."""
        ...

    async def close(self) -> None:
        """Close it. Idempotent."""
        ...


C = TypeVar("C", bound=_Client)


class _OpenClients:
    """The clients of a `Tube` that have not ended.

    The invariants: closing is bounded in time; a failure of one leaves no other open.
    """

    def __init__(self) -> None:
        self._open: list[_Client] = []
        self._close_within_s = 0.0
        """The longest time that any of them has for closing."""

    def add(self, client: C, *, close_timeout_s: float = 0.0) -> C:
        """Add a client, and the time that it may take to close."""
        self._close_within_s = max(self._close_within_s, close_timeout_s)
        self._open = [one for one in self._open if not one.ended]
        self._open.append(client)
        return client

    async def close(self) -> Sequence[BaseException]:
        """Close all clients at once; return the failures. Clients that take too long are left open."""
        clients, self._open = self._open, []
        ended: Sequence[BaseException | None] = ()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._close_within_s + CLOSE_MARGIN_S):
                ended = await asyncio.gather(*(one.close() for one in clients), return_exceptions=True)
        return [error for error in ended if error is not None]
