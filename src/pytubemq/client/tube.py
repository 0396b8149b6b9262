"""The entry to the client: `connect` and the `Tube` that it returns.

The invariant: every producer, consumer and reader of a `Tube` ends with it at the latest.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytubemq.client.group_resets import reset_group
from pytubemq.client.open_clients import OpenClients
from pytubemq.client.option_arguments import function_takes, takes
from pytubemq.client.options import (
    BalanceOptions,
    ConnectOptions,
    ConsumerOptions,
    ProducerOptions,
    PushOptions,
    ReaderOptions,
)
from pytubemq.client.session.cluster_connection import Cluster
from pytubemq.client.session.metadata import MetadataClient
from pytubemq.errors import ClosedError, TubeError
from pytubemq.model.ids import BrokerInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.consumer.client_balance.consumer import BalanceConsumer
    from pytubemq.client.consumer.consumer import Consumer
    from pytubemq.client.partition_state import Known, PartitionLook
    from pytubemq.client.producer.producer import Producer
    from pytubemq.client.push.push_consumer import PushConsumer
    from pytubemq.client.reader.reader import Reader
    from pytubemq.client.session.event_log import EventQueue
    from pytubemq.client.start_position import Start
    from pytubemq.model.ids import Partition
    from pytubemq.wire.protocol.extensions import Capability


@function_takes(ConnectOptions)
def connect(options: ConnectOptions) -> Tube:
    """Return a connection to a cluster, for `async with`.

    Args:
        masters: `host:port[,host:port...]`; the port may be left out (8715, or 8716 over TLS). With TLS options in one
            text: `tls://host:port[,host:port...]?ca=FILE[&cert=FILE&key=FILE][&server_name=NAME]`. Both take the user
            behind a `?`, with the file that has its secret: `user=NAME&secret_file=FILE`.
        first_connect: "fail" raises at once when no Master answers, and when a producer's topic does not exist;
            "wait" waits for both.
        request_timeout_s: how long any one request may take.
        client_name: shown in client ids, to find a program in the servers' lists.
        credentials: the user and the secret with which requests to Masters are signed. None takes those of the address,
            else of `PYTUBEMQ_USER` with `PYTUBEMQ_SECRET_FILE` or `PYTUBEMQ_SECRET`; without any nothing is signed.
        known: what another connection to the cluster had learned (`Tube.known`): then no Master is asked before that is
            needed. For the processes of one job; it holds the cluster's visit token, and in place of credentials a
            token of two hours, which the Master renews.
        tls: options of TLS; then all connections are over TLS, to the Masters and to the Brokers. None is plain.

    Raises:
        FormatError: an address is malformed.
        ConfigError: an option makes no sense.
    """
    return Tube(options)


class Tube:
    """A connection to a cluster; makes producers, consumers and readers."""

    def __init__(self, options: ConnectOptions) -> None:
        """Use `connect`."""
        self._options = options
        self._cluster: Cluster | None = None
        self._metadata: MetadataClient | None = None
        self._clients: OpenClients | None = None

    def __repr__(self) -> str:
        is_open = self._cluster is not None and not self._cluster.closed
        masters = ",".join(map(str, self._options.masters))
        return f"Tube({masters!r}{'' if is_open else ', not open'})"

    async def __aenter__(self) -> Tube:
        """Connect to a Master.

        Raises:
            UnreachableError: none answers (unless `first_connect` is "wait"); the text names each with its reason.
            ConfigError: the secret of a user cannot be read.
        """
        if self._cluster is not None:
            raise ClosedError("a connection can be entered once", hint="call connect() again")
        cluster = self._cluster = Cluster(self._options)
        try:
            await cluster.open()
        except BaseException:
            await cluster.close()
            raise
        metadata = self._metadata = MetadataClient(cluster, retry_for_s=self._options.request_timeout_s)
        self._clients = OpenClients(cluster, metadata)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its clients, all at once, then the connections. Idempotent, bounded in time.

        A failure of one leaves no other open; the first is raised at the end. In a forked child it does nothing.
        """
        cluster = self._cluster
        if cluster is None or cluster.closed or cluster.is_inherited:
            return
        failures: Sequence[BaseException] = ()
        try:
            if self._clients is not None:
                failures = await self._clients.close()  # whatever is still open then ends with the connections
            if self._metadata is not None:
                with contextlib.suppress(TubeError, TimeoutError):
                    await self._metadata.close()
        finally:
            await cluster.close()
        for error in failures:
            raise error

    @takes(ProducerOptions)
    def producer(self, options: ProducerOptions) -> Producer:
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
        return self._open_clients().producer(options)

    @takes(ConsumerOptions)
    def consumer(self, options: ConsumerOptions) -> Consumer:
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
        return self._open_clients().consumer(options)

    @takes(PushOptions)
    def push_consumer(self, options: PushOptions) -> PushConsumer:
        """Return a consumer of a group that calls `handler` with what comes, for `async with`.

        A batch is confirmed when its handler has returned. Batches of one partition are handled one after the other,
        those of several at the same time. Heartbeats go on however long a handler takes, and its batch stays with it.

        Args:
            group, topic, topics, start, filters, fetch_interval_s, max_messages_per_s, max_bytes_per_s, bound: as for
                `consumer`.
            handler: a function, plain (it runs in a thread) or `async`, of a `Batch`; what it returns is ignored.
            workers: most handlers at a time.
            by_message: call it with one `Message` after the other instead. The batch is confirmed after the last; if
                an error or the end of the consumer comes before, the messages that were handled are confirmed (not at
                Java Brokers, which cannot confirm a part of a batch).
            on_error: when it raises: "retry" has what was not handled come again after a pause that grows, "skip"
                confirms it all the same (with `by_message` only the one message is skipped), "stop" ends this consumer,
                and `wait` raises what the handler raised. Each is logged and reported as `HandlerFailed`. What is no
                `Exception`, such as `SystemExit`, always ends the consumer.
            max_messages, max_wait_s, max_bytes: what a batch may be, as for `Consumer.batches`.
            close_timeout_s: how long leaving the block waits for running handlers.
        """
        return self._open_clients().push_consumer(options, handler=options.handler)

    @takes(BalanceOptions)
    def balance_consumer(self, options: BalanceOptions) -> BalanceConsumer:
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
        return self._open_clients().balance_consumer(options)

    @takes(ReaderOptions)
    def reader(self, options: ReaderOptions) -> Reader:
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
        return self._open_clients().reader(options)

    @property
    def known(self) -> Known:
        """The state to pass on to another process, for `connect(known=...)`."""
        metadata = self._metadata
        return self._open().known("" if metadata is None else metadata.client_id)

    def learn(self, known: Known) -> None:
        """Take over the state of another connection to the cluster."""
        self._open().learn(known)

    async def partitions_of(self, topics: Sequence[str]) -> dict[str, list[Partition]]:
        """Return all partitions of several topics at once, as `partitions`; a topic that does not exist is left out."""
        return await self._open_metadata().partitions_of(topics)

    async def topics(self) -> list[str]:
        """Return the names of all topics, sorted.

        Raises:
            ConfigError: the Master cannot say (Java Masters).
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
            ConfigError: its Broker cannot say (Java Brokers).
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
            dry_run: return what would happen, and change nothing.

        Raises:
            NotFoundError: there is no such topic.
            BadRequestError: a partition does not have this offset; nothing was moved.
            ConfigError: its Broker cannot (Java Brokers), or an argument makes no sense.
        """
        return await reset_group(
            self._open(), self._open_metadata(), group, topic, to, partitions=partitions, dry_run=dry_run
        )

    def events(self) -> EventQueue:
        """Return a new listener to all events of this connection: Connected, Lost, Rebalanced, Throttled, SlowConsumer,
        ConfirmFailed, PositionMoved, Skipped, HandlerFailed.

        It begins with the last 1,000 events. Each call returns a listener of its own, which gets all of
        them, whatever other listeners get.
        """
        return self._open().events.listen()

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

    def _open_clients(self) -> OpenClients:
        """Return the clients of an open connection."""
        self._open()
        assert self._clients is not None  # made with the metadata client
        return self._clients
