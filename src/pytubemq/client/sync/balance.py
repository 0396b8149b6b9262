"""`BalanceConsumer` without `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client.sync.consumer import ConsumerBase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.client.consumer.client_balance import consumer as consumers
    from pytubemq.client.consumer.client_balance.consumer import PartitionOffset
    from pytubemq.client.options import BalanceOptions
    from pytubemq.model.ids import Partition
    from pytubemq.net.iothread import IoThread


class BalanceConsumer(ConsumerBase):
    """Reads the partitions that it chooses. Made by `Tube.balance_consumer`; use it with `with`."""

    def __init__(self, io: IoThread, consumer: consumers.BalanceConsumer) -> None:
        super().__init__(io, consumer)
        self._balance = consumer

    def __enter__(self) -> BalanceConsumer:
        """Register; see `pytubemq.BalanceConsumer`."""
        self._io.run(self._balance.__aenter__())
        return self

    @property
    def options(self) -> BalanceOptions:
        """The options of the consumer."""
        return self._balance.options

    @property
    def closed(self) -> bool:
        """True if it cannot be used: not entered yet, or left."""
        return self._balance.closed

    @property
    def client_version(self) -> str:
        """The version of this client, as in its client id."""
        return self._balance.client_version

    @property
    def consumer_id(self) -> str:
        """The id that this consumer has in the servers' lists; empty before it is entered."""
        return self._balance.consumer_id

    @property
    def node_id(self) -> int | None:
        """The number of this member of the group; None if it has none."""
        return self._balance.node_id

    @property
    def source_count(self) -> int | None:
        """The number of members of the group; None if they have no numbers."""
        return self._balance.source_count

    def filters(self, topic: str) -> frozenset[str]:
        """Return the filter items of a topic; empty if it is read without a filter."""
        return self._balance.filters(topic)

    def partition_meta(self) -> Mapping[Partition, bool]:
        """Return all partitions of the topics, each with True if it can be consumed now."""
        return self._io.run(self._balance.partition_meta())

    @property
    def share(self) -> frozenset[Partition]:
        """The partitions that belong to this node, whether they can be consumed now or not."""
        return self._io.call(lambda: self._balance.share)

    @property
    def registered(self) -> tuple[Partition, ...]:
        """The partitions that Brokers have registered for this consumer, sorted; the same as `assignment`."""
        return self.assignment

    def ready(self, timeout_s: float | None = None) -> bool:
        """Wait until there is something to read; see `pytubemq.BalanceConsumer.ready`."""
        return self._io.run(self._balance.ready(timeout_s))

    def offsets(self) -> dict[Partition, PartitionOffset]:
        """Return the group's position in each connected partition, as its Broker last reported it."""
        return self._io.call(self._balance.offsets)

    def connect(self, partition: Partition | str, offset: int | None = None) -> None:
        """Connect to a partition; arguments and errors as in `pytubemq.BalanceConsumer.connect`."""
        self._io.run(self._balance.connect(partition, offset))

    def disconnect(self, partition: Partition | str) -> None:
        """Give a partition back, after at most 3 s for your batch."""
        self._io.run(self._balance.disconnect(partition))
