"""The source's way to the cluster: ends of partitions and ranges of messages, through restarts of Brokers.

Connections are kept per process, at module level: Spark calls a reader anew for each task, in worker processes that it
keeps, and a connect per task would cost more than a small batch. The invariant: whatever fails, a range yields each of
its messages once and in order, because every try goes on after the last message handed out.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING, Final

import pytubemq.sync
from pytubemq.core.retry import Backoff
from pytubemq.errors import NotFoundError, OffsetMovedError, TransportError, TubeError
from pytubemq.spark.source.plan import Ends, OffsetRange, data_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pytubemq.client.batch import ReadBatch
    from pytubemq.model.ids import Address, Partition
    from pytubemq.sync import Tube

FIRST_CONTACT_S: Final = 8.0
"""How long the driver tries a cluster that it has never reached: a wrong address should be told soon."""
OUTAGE_S: Final = 60.0
"""How long a cluster that was reached before may be away, counted anew after each success: a Broker's restart."""
PARTITIONS_KNOWN_S: Final = 2.0
"""How long the Master's answer about partitions holds; where they end is asked of the Brokers each time."""
FETCH_BYTES: Final = 4 * 1024 * 1024
"""Payload asked for in one fetch: some ten thousand small rows, which is what Spark likes as a batch."""
_BACKOFF: Final = Backoff(first_s=0.1, most_s=2.0)

_open: dict[tuple[int, tuple[Address, ...]], Tube] = {}
_open_lock = threading.Lock()
_reached: set[tuple[Address, ...]] = set()


class Cluster:
    """A cluster, by the addresses of its Masters. Holds no connection itself, so it can be pickled."""

    def __init__(self, masters: tuple[Address, ...]) -> None:
        self.masters = masters
        self._partitions: list[Partition] = []
        self._asked_s: float | None = None

    def ends(self, topics: Sequence[str], *, needed: Collection[Partition] = ()) -> dict[Partition, Ends]:
        """The ends of all partitions of the topics; waits for Brokers that are away, and for those in `needed`.

        There is no answer without a Broker on which a topic is deployed: a query would silently read a part of it.
        When a needed partition is not among the topics' within `OUTAGE_S`, the answer is without it.

        Raises:
            NotFoundError: a topic does not exist.
            TransportError: the Masters or a Broker could not be reached in time; the text names it.
        """
        return self._patiently(lambda: self._ask(topics), needed=needed)

    def ends_of(self, partition: Partition) -> Ends:
        """The ends of one partition, whatever its topic's other Brokers do.

        Raises:
            NotFoundError: it does not exist.
            TransportError: its Broker could not be reached in time.
        """
        return self._patiently(lambda: self._offsets([partition]), needed=[partition])[partition]

    def _patiently(
        self, ask: Callable[[], dict[Partition, Ends]], *, needed: Collection[Partition]
    ) -> dict[Partition, Ends]:
        read_before = bool(self._partitions)
        began_s = time.monotonic()
        tries = 0
        while True:
            tries += 1
            pause_s = _BACKOFF.delay_s(tries, random.random)
            try:
                ends = ask()
            except TubeError as error:
                self.forget()
                # a topic that was read a moment ago is away rather than misspelt
                may_mend = _may_mend(error) or (read_before and isinstance(error, NotFoundError))
                if not may_mend or self._too_late(began_s, pause_s):
                    raise
            else:
                if all(partition in ends for partition in needed) or self._too_late(began_s, pause_s):
                    return ends
            self._asked_s = None
            time.sleep(pause_s)

    def _too_late(self, began_s: float, pause_s: float) -> bool:
        """Whether there is no time for another try. A Master that has answered by now was no wrong address."""
        patience_s = OUTAGE_S if self.masters in _reached else FIRST_CONTACT_S
        return time.monotonic() + pause_s > began_s + patience_s

    def fetches(self, wanted: OffsetRange, *, fail_on_data_loss: bool = True) -> Iterator[ReadBatch]:
        """The messages of a range, in order, one batch per fetch; what is malformed comes raw.

        Raises:
            OffsetMovedError: the Broker no longer has them all and `fail_on_data_loss` is set; otherwise what is gone
                is left out.
            TransportError: the Broker was away for longer than `OUTAGE_S`.
        """
        at = wanted.start
        tries, since_s = 0, time.monotonic()
        while at < wanted.end:
            try:
                with self._tube().reader(
                    wanted.partition,
                    start=at,
                    end=wanted.end,
                    end_exists=True,
                    on_malformed="raw",
                    retry_for_s=OUTAGE_S,
                ) as reader:
                    for batch in reader.batches(max_bytes=FETCH_BYTES):
                        yield batch
                        at = batch.next_offset
                        tries, since_s = 0, time.monotonic()
                if at < wanted.end:
                    raise OffsetMovedError(f"partition {wanted.partition} ends at {at}")
            except OffsetMovedError as error:
                at = self._after_loss(wanted, at, error, fail=fail_on_data_loss)
            except TubeError as error:
                self.forget()
                may_mend = _may_mend(error) or isinstance(error, NotFoundError)
                if not may_mend or time.monotonic() - since_s > OUTAGE_S:
                    raise
                tries += 1
                time.sleep(_BACKOFF.delay_s(tries, random.random))

    def _after_loss(self, wanted: OffsetRange, at: int, error: OffsetMovedError, *, fail: bool) -> int:
        """Where to go on when rows of a range are gone: the first row kept after `at`, or the range's end."""
        there = self.ends_of(wanted.partition)
        if fail:
            raise data_loss(wanted, there) from error
        return min(there.min_offset, wanted.end) if there.min_offset > at else wanted.end

    def _ask(self, topics: Sequence[str]) -> dict[Partition, Ends]:
        if self._asked_s is None or time.monotonic() - self._asked_s > PARTITIONS_KNOWN_S:
            tube = self._tube()
            self._partitions = [partition for topic in topics for partition in tube.partitions(topic)]
            self._asked_s = time.monotonic()
        return self._offsets(self._partitions)

    def _offsets(self, partitions: Sequence[Partition]) -> dict[Partition, Ends]:
        tube = self._tube()
        _reached.add(self.masters)
        return {partition: Ends(*there) for partition, there in tube.offsets(partitions).items()}

    def forget(self) -> None:
        """Close this process's connections to the cluster; the next use opens new ones."""
        with _open_lock:
            tube = _open.pop((os.getpid(), self.masters), None)
        if tube is not None:
            tube.close()

    def _tube(self) -> Tube:
        key = (os.getpid(), self.masters)  # a forked worker must not use its parent's sockets
        with _open_lock:
            tube = _open.get(key)
            if tube is None:
                tube = pytubemq.sync.connect(self.masters, client_name="spark")
                _open[key] = tube.__enter__()
            return tube


def _may_mend(error: TubeError) -> bool:
    """Whether the same call may succeed once a Broker or Master is back."""
    return error.retriable or isinstance(error, TransportError)
