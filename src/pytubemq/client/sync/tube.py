"""`connect` and `Tube` without `await`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytubemq.client import tube as engine
from pytubemq.client.option_arguments import function_takes, takes
from pytubemq.client.options import (
    BalanceOptions,
    ConnectOptions,
    ConsumerOptions,
    ProducerOptions,
    PushOptions,
    ReaderOptions,
)
from pytubemq.client.sync.balance import BalanceConsumer
from pytubemq.client.sync.consumer import Consumer
from pytubemq.client.sync.exit_hook import close_at_exit, forget
from pytubemq.client.sync.producer import Producer
from pytubemq.client.sync.push import PushConsumer, for_threads
from pytubemq.client.sync.reader import Reader
from pytubemq.client.sync.thread import SyncThread
from pytubemq.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.partition_state import Known, PartitionLook
    from pytubemq.client.session.events import Event
    from pytubemq.client.start_position import Start
    from pytubemq.model.ids import BrokerInfo, Partition
    from pytubemq.net.iothread import IoThread
    from pytubemq.wire.protocol.extensions import Capability


@function_takes(ConnectOptions, like=engine.connect)
def connect(options: ConnectOptions) -> Tube:
    """Return a connection to a cluster, for `with`; arguments and errors as in `pytubemq.connect`."""
    return Tube(engine.Tube(options))


class Tube:
    """A connection to a cluster; makes producers, consumers and readers."""

    def __init__(self, tube: engine.Tube) -> None:
        """Use `connect`."""
        self._tube = tube
        self._io: IoThread | None = None
        self._producers: list[Producer] = []
        """Those that have not ended."""

    def __repr__(self) -> str:
        return f"sync.{self._tube!r}"

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
        close_at_exit(id(self), repr(self), self.close)
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
            io.run(self._close())
        finally:
            forget(id(self))
            io.close()

    async def _close(self) -> None:
        # First what still waits between the threads; whatever fails is the inner connection's to report.
        await asyncio.gather(*(producer._close() for producer in self._producers), return_exceptions=True)
        await self._tube.close()

    @takes(ProducerOptions, like=engine.Tube.producer)
    def producer(self, options: ProducerOptions) -> Producer:
        """Return a producer of one topic, for `with`; arguments as in `pytubemq.Tube.producer`."""
        io = self._open()
        producer = Producer(io, io.call(lambda: self._tube._open_clients().producer(options)), options)
        self._producers = [*(one for one in self._producers if not one.ended), producer]
        return producer

    @takes(ConsumerOptions, like=engine.Tube.consumer)
    def consumer(self, options: ConsumerOptions) -> Consumer:
        """Return a consumer of a group, for `with`; arguments as in `pytubemq.Tube.consumer`."""
        io = self._open()
        return Consumer(io, io.call(lambda: self._tube._open_clients().consumer(options)))

    @takes(BalanceOptions, like=engine.Tube.balance_consumer)
    def balance_consumer(self, options: BalanceOptions) -> BalanceConsumer:
        """Return a consumer that divides a group's partitions with its fellows, for `with`; see `pytubemq.Tube`."""
        io = self._open()
        return BalanceConsumer(io, io.call(lambda: self._tube._open_clients().balance_consumer(options)))

    @takes(PushOptions, like=engine.Tube.push_consumer)
    def push_consumer(self, options: PushOptions) -> PushConsumer:
        """Return a consumer that calls `handler`, for `with`; arguments as in `pytubemq.Tube.push_consumer`.

        A plain handler runs in a thread and gets a `sync.Batch`; a coroutine function runs on the client's own thread.
        """
        io = self._open()
        handler = for_threads(io, options.handler)
        return PushConsumer(io, io.call(lambda: self._tube._open_clients().push_consumer(options, handler=handler)))

    @takes(ReaderOptions, like=engine.Tube.reader)
    def reader(self, options: ReaderOptions) -> Reader:
        """Return a reader of a range, for `with`; arguments as in `pytubemq.Tube.reader`."""
        io = self._open()
        return Reader(io, io.call(lambda: self._tube._open_clients().reader(options)))

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
        """Iterate over all events of this connection, from the last 1,000 on; ends when it is closed."""
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
