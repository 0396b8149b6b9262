"""`connect` and `Tube` without `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client import tube as engine
from pytubemq.client.consumer.client_balance.options import META_CHECK_S, NODE_WAIT_S
from pytubemq.client.options import Bound, FirstConnect, OnError, OnMalformed, Start
from pytubemq.client.sync.balance import BalanceConsumer
from pytubemq.client.sync.consumer import Consumer
from pytubemq.client.sync.producer import Producer
from pytubemq.client.sync.push import PushConsumer, for_threads
from pytubemq.client.sync.reader import Reader
from pytubemq.client.sync.thread import SyncThread
from pytubemq.errors import ClosedError
from pytubemq.model.limits import (
    CONFIRM_TIMEOUT_S,
    DEFAULT_REQUEST_TIMEOUT_S,
    PRODUCER_BUFFER_BYTES,
    PRODUCER_BUFFER_MESSAGES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.consumer.push_consumer import Handler
    from pytubemq.client.partition_state import Known, PartitionLook
    from pytubemq.client.session.events import Event
    from pytubemq.model.ids import Address, BrokerInfo, Partition
    from pytubemq.net.iothread import IoThread
    from pytubemq.wire.protocol.extensions import Capability


def connect(
    masters: str | Sequence[Address],
    *,
    first_connect: FirstConnect = "fail",
    request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
    client_name: str = "",
    known: Known | None = None,
) -> Tube:
    """Return a connection to a cluster, for `with`; arguments and errors as in `pytubemq.connect`."""
    return Tube(
        engine.connect(
            masters,
            first_connect=first_connect,
            request_timeout_s=request_timeout_s,
            client_name=client_name,
            known=known,
        )
    )


class Tube:
    """A connection to a cluster; makes producers, consumers and readers."""

    def __init__(self, tube: engine.Tube) -> None:
        """Use `connect`."""
        self._tube = tube
        self._io: IoThread | None = None

    def __enter__(self) -> Tube:
        """Connect to a Master; see `pytubemq.Tube`."""
        if self._io is not None:
            raise ClosedError("a connection can be entered once", hint="call connect() again")
        self._io = SyncThread()
        try:
            self._io.run(self._tube.__aenter__())
        except BaseException:
            self._io.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its clients, then the connections. Idempotent, bounded in time."""
        io = self._io
        if io is None or io.closed:
            return
        try:
            io.run(self._tube.close())
        finally:
            io.close()

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
        """Return a producer of one topic, for `with`; arguments as in `pytubemq.Tube.producer`."""
        made = self._open().call(
            lambda: self._tube.producer(
                topic,
                linger_s=linger_s,
                max_buffer_messages=max_buffer_messages,
                max_buffer_bytes=max_buffer_bytes,
                delivery_timeout_s=delivery_timeout_s,
                close_timeout_s=close_timeout_s,
                batching=batching,
                idempotent=idempotent,
            )
        )
        return Producer(self._open(), made, max_buffer_messages, max_buffer_bytes)

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
        """Return a consumer of a group, for `with`; arguments as in `pytubemq.Tube.consumer`."""
        made = self._open().call(
            lambda: self._tube.consumer(
                group,
                topic,
                *topics,
                start=start,
                filters=filters,
                confirm_timeout_s=confirm_timeout_s,
                close_timeout_s=close_timeout_s,
                fetch_interval_s=fetch_interval_s,
                max_messages_per_s=max_messages_per_s,
                max_bytes_per_s=max_bytes_per_s,
                bound=bound,
            )
        )
        return Consumer(self._open(), made)

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
        """Return a consumer that divides a group's partitions with its fellows, for `with`; see `pytubemq.Tube`."""
        made = self._open().call(
            lambda: self._tube.balance_consumer(
                group,
                topic,
                *topics,
                node_id=node_id,
                source_count=source_count,
                start=start,
                filters=filters,
                manual=manual,
                confirm_timeout_s=confirm_timeout_s,
                close_timeout_s=close_timeout_s,
                fetch_interval_s=fetch_interval_s,
                max_messages_per_s=max_messages_per_s,
                max_bytes_per_s=max_bytes_per_s,
                meta_check_s=meta_check_s,
                node_wait_s=node_wait_s,
            )
        )
        return BalanceConsumer(self._open(), made)

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
        """Return a consumer that calls `handler`, for `with`; arguments as in `pytubemq.Tube.push_consumer`.

        A plain handler runs in a thread and gets a `sync.Batch`; a coroutine function runs on the client's own thread.
        """
        io = self._open()
        made = io.call(
            lambda: self._tube.push_consumer(
                group,
                topic,
                *topics,
                handler=for_threads(io, handler),
                workers=workers,
                by_message=by_message,
                on_error=on_error,
                max_messages=max_messages,
                max_wait_s=max_wait_s,
                max_bytes=max_bytes,
                start=start,
                filters=filters,
                close_timeout_s=close_timeout_s,
                fetch_interval_s=fetch_interval_s,
                max_messages_per_s=max_messages_per_s,
                max_bytes_per_s=max_bytes_per_s,
                bound=bound,
            )
        )
        return PushConsumer(io, made)

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
        """Return a reader of a range, for `with`; arguments as in `pytubemq.Tube.reader`."""
        made = self._open().call(
            lambda: self._tube.reader(
                partition,
                start=start,
                end=end,
                end_exists=end_exists,
                on_malformed=on_malformed,
                retry_for_s=retry_for_s,
                filters=filters,
            )
        )
        return Reader(self._open(), made)

    @property
    def known(self) -> Known:
        """The state to pass on to another process, for `connect(known=...)`."""
        return self._open().call(lambda: self._tube.known)

    def learn(self, known: Known) -> None:
        """Take over the state of another connection to the cluster."""
        self._open().call(lambda: self._tube.learn(known))

    def partitions_of(self, topics: Sequence[str]) -> dict[str, list[Partition]]:
        """Return all partitions of several topics at once, as `partitions`; a topic that does not exist is left out."""
        return self._open().run(self._tube.partitions_of(topics))

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted; see `pytubemq.Tube.topics`."""
        return self._open().run(self._tube.topics())

    def partitions(self, topic: str) -> list[Partition]:
        """Return all partitions of the topic, sorted; see `pytubemq.Tube.partitions`."""
        return self._open().run(self._tube.partitions(topic))

    def offsets(
        self, partitions: Iterable[Partition], *, at: datetime | None = None
    ) -> dict[Partition, tuple[int, int]]:
        """Return per partition the first readable offset, or from a time on, and the one its next message gets."""
        return self._open().run(self._tube.offsets(list(partitions), at=at))

    def look(
        self, partitions: Iterable[Partition], *, at: datetime | None = None, group: str | None = None
    ) -> dict[Partition, PartitionLook]:
        """Return the state of each partition at its Broker; see `pytubemq.Tube.look`."""
        return self._open().run(self._tube.look(list(partitions), at=at, group=group))

    def capabilities(self, partitions: Iterable[Partition]) -> dict[int, Capability]:
        """Return the capabilities of each Broker of these partitions, beyond those of the original."""
        return self._open().run(self._tube.capabilities(list(partitions)))

    def reset_group(
        self,
        group: str,
        topic: str,
        to: Start | str | datetime | int,
        *,
        partitions: Iterable[Partition] | None = None,
        dry_run: bool = False,
    ) -> dict[Partition, tuple[int | None, int]]:
        """Move a group to another place in a topic; arguments and errors as in `pytubemq.Tube.reset_group`."""
        return self._open().run(self._tube.reset_group(group, topic, to, partitions=partitions, dry_run=dry_run))

    def events(self) -> Iterator[Event]:
        """Iterate over the events of this connection; ends when it is closed."""
        io = self._open()
        queue = io.call(self._tube.events)
        while True:
            try:
                event = io.run(queue.get())
            except ClosedError:
                return
            yield event

    @property
    def brokers(self) -> list[BrokerInfo]:
        """The Brokers known so far."""
        return self._open().call(lambda: self._tube.brokers)

    def _open(self) -> IoThread:
        if self._io is None:
            raise ClosedError("the connection is not open", hint="use it inside `with sync.connect(...) as tube`")
        return self._io
