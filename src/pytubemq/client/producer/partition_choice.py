"""The choice of a partition for each message of a producer.

The invariant: messages without a key go to one partition until a record batch is full or all of them have been sent, so
that batches are full; then to another one, of a Broker that serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client.producer.messages.message_checks import check_key, find_partition
from pytubemq.core.routing import Router
from pytubemq.errors import Code, NotFoundError, ServerOverflowError, TransportError, UnavailableError
from pytubemq.model.limits import MAX_RECORD_BATCH_BYTES, MAX_RECORD_BATCH_MESSAGES
from pytubemq.model.missing_topic import topic_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Partition


class PartitionChoice:
    """The partitions of a topic, and the one for which messages are gathered now."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.filling: Partition | None = None
        """The partition for which messages without a key are gathered, because its Broker takes record batches."""
        self.room_messages = self.room_bytes = 0
        """Messages and bytes that may still go there before another partition's turn."""
        self._topic = topic
        self._router = Router(rng=cluster.rng)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All partitions."""
        return self._router.partitions

    def update(self, partitions: Iterable[Partition], now_s: float) -> frozenset[Partition]:
        """Take the partitions that the Master names now; return those that are gone."""
        self.filling = None
        return self._router.update(partitions, now_s)

    def any(self, now_s: float, size_bytes: int) -> Partition:
        """Return the partition for a message that may go to any.

        Raises:
            NotFoundError: there is none.
        """
        chosen = self.filling
        if chosen is not None and self.room_messages > 0 and self.room_bytes >= size_bytes:
            self.room_messages -= 1
            self.room_bytes -= size_bytes
            return chosen
        chosen = self._router.choose(now_s)
        if chosen is None:
            raise self._no_partition()
        return chosen

    def fill(self, partition: Partition, size_bytes: int) -> None:
        """Let the next messages follow a first one of this size to its partition."""
        self.filling = partition
        # The first one is on its way there already.
        self.room_messages = MAX_RECORD_BATCH_MESSAGES - 1
        self.room_bytes = MAX_RECORD_BATCH_BYTES - size_bytes

    def pick(self, key: bytes | str | None, partition: Partition | int | None) -> tuple[bytes | Partition, Partition]:
        """Return the key as bytes, or the requested partition, and the partition for it.

        Raises:
            NotFoundError: no such partition, or none at all.
            MessageError: the key is neither text nor bytes.
        """
        if partition is not None:
            if not self._router.partitions:
                raise self._no_partition()
            found = find_partition(partition, self._router.partitions, self._topic)
            return found, found
        raw = b"" if key is None else check_key(key)
        chosen = self._router.for_key(raw)
        if chosen is None:
            raise self._no_partition()
        return raw, chosen

    def again(self, key: bytes | None, partition: Partition, now_s: float) -> Partition:
        """Return the partition for messages that cannot go to theirs."""
        # With no partition at all for now, they stay with theirs.
        return self._router.choose(now_s, key) or partition

    def is_left_out(self, partition: Partition) -> bool:
        """True if messages that may go to any partition do not go to this one now."""
        return self._router.is_left_out(partition)

    def pass_over_silent(self, awaited: Mapping[int, float], now_s: float) -> None:
        """Skip Brokers that have owed a response since these times for too long."""
        if self._router.pass_over_silent(awaited, now_s):
            self.filling = None

    def record_response(self, broker_id: int, now_s: float) -> None:
        """Use a Broker again that serves."""
        if self._router.record_response(broker_id, now_s):
            self.filling = None  # its Broker may have been chosen only because none responded

    def record_partition_failure(self, partition: Partition, now_s: float) -> None:
        """Leave a partition out for a while that its Broker cannot serve."""
        self._router.record_partition_failure(partition, now_s)
        self.filling = None

    def record_broker_failure(self, broker_id: int, error: TubeError, now_s: float) -> bool:
        """Leave a Broker out for a while if this is an error of its own; return True if there are others to use."""
        # Other errors are about the message or the topic, and every Broker would say the same.
        if not isinstance(error, TransportError | UnavailableError | ServerOverflowError):
            return False
        self.filling = None
        self._router.record_failure(broker_id, now_s)
        # Without another Broker, messages stay in order where they are.
        return bool(self._router.open_brokers(now_s) - {broker_id})

    def _no_partition(self) -> NotFoundError:
        return NotFoundError(
            f"topic {self._topic!r} has no partition now",
            hint=topic_missing(self._topic, known=None).hint,
            code=Code.NO_PARTITION_AVAILABLE,
        )


def is_partitions_own(error: TubeError) -> bool:
    """True if a Broker that serves reports this of one partition, for example of one with damaged files."""
    return isinstance(error, UnavailableError) and error.code == Code.INTERNAL_SERVER_ERROR
