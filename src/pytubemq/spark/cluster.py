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
from typing import TYPE_CHECKING, Final, TypeVar

import pytubemq.sync
from pytubemq.core.retry import Backoff
from pytubemq.errors import OffsetMovedError, TransportError, TubeError
from pytubemq.spark.plan import Ends, OffsetRange, data_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.model.ids import Address, Partition
    from pytubemq.sync import Tube
    from pytubemq.wire.hot import StoredMessage

T = TypeVar("T")

FIRST_CONTACT_S: Final = 8.0
"""How long the driver tries a cluster that it has never reached: a wrong address should be told soon."""
OUTAGE_S: Final = 60.0
"""How long a cluster that was reached before may be away, counted anew after each success: a Broker's restart."""
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

    def ends(self, topics: Sequence[str]) -> dict[Partition, Ends]:
        """The ends of all partitions of the topics.

        Raises:
            NotFoundError: a topic does not exist.
            TransportError: the Masters or a Broker could not be reached in time.
        """
        patience_s = OUTAGE_S if self.masters in _reached else FIRST_CONTACT_S

        def ask() -> dict[Partition, Ends]:
            tube = self._tube()
            ends: dict[Partition, Ends] = {}
            for topic in topics:
                for partition, there in tube.offsets(topic).items():
                    ends[partition] = Ends(there.min_offset, there.max_offset)
            return ends

        ends = self._retrying(ask, patience_s=patience_s)
        _reached.add(self.masters)
        return ends

    def fetches(self, wanted: OffsetRange, *, fail_on_data_loss: bool = True) -> Iterator[Sequence[StoredMessage]]:
        """The messages of a range, in order, one list per fetch.

        Raises:
            OffsetMovedError: the Broker no longer has them all and `fail_on_data_loss` is set; otherwise what is gone
                is left out.
            TransportError: the Broker was away for longer than `OUTAGE_S`.
        """
        at = wanted.start
        tries, since_s = 0, time.monotonic()
        while at < wanted.end:
            try:
                for batch in self._tube().reader(wanted.partition, at, wanted.end, max_bytes=FETCH_BYTES):
                    if batch.stored:
                        yield batch.stored
                    at = batch.next_offset
                    tries, since_s = 0, time.monotonic()
                if at < wanted.end:
                    raise OffsetMovedError(f"partition {wanted.partition} ends at {at}")
            except OffsetMovedError as error:
                at = self._after_loss(wanted, at, error, fail=fail_on_data_loss)
            except TubeError as error:
                self.forget()
                if not _may_mend(error) or time.monotonic() - since_s > OUTAGE_S:
                    raise
                tries += 1
                time.sleep(_BACKOFF.delay_s(tries, random.random))

    def _after_loss(self, wanted: OffsetRange, at: int, error: OffsetMovedError, *, fail: bool) -> int:
        """Where to go on when rows of a range are gone: the first row kept after `at`, or the range's end."""
        there = self.ends([wanted.partition.topic]).get(wanted.partition, Ends(0, 0))
        if fail:
            raise data_loss(wanted, there) from error
        return min(there.min_offset, wanted.end) if there.min_offset > at else wanted.end

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
                tube = _open[key] = pytubemq.sync.connect(",".join(map(str, self.masters)))
            return tube

    def _retrying(self, ask: Callable[[], T], *, patience_s: float) -> T:
        deadline_s, tries = time.monotonic() + patience_s, 0
        while True:
            try:
                return ask()
            except TubeError as error:
                self.forget()
                tries += 1
                delay_s = _BACKOFF.delay_s(tries, random.random)
                if not _may_mend(error) or time.monotonic() + delay_s > deadline_s:
                    raise
                time.sleep(delay_s)


def _may_mend(error: TubeError) -> bool:
    """Whether the same call may succeed once a Broker or Master is back."""
    return error.retriable or isinstance(error, TransportError)
