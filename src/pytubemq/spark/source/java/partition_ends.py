"""The first and end offsets of Java Brokers' partitions.

A Java Broker gives it to those who hold a partition for a group: the registration answers both ends, and confirming
nothing answers the newer one, which is the cheapest question there is. So the driver keeps partitions held under a
group of its own and asks anew where they begin every `HELD_S`.

The invariants: asking moves nobody's group; the ends are those that the Broker had after it was asked.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from typing import TYPE_CHECKING, Final

from pytubemq.client.session.call_with_retry import call_with_retry
from pytubemq.core.retry import BRIEF_S
from pytubemq.errors import Code, ConfigError, NotAllowedError, NotRegisteredError, OccupiedError, TransportError
from pytubemq.spark.source.java.access import access
from pytubemq.spark.source.java.group import ends_group_names
from pytubemq.spark.source.planning.plan import Ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.reader.range_group import GroupRange, GroupRanges
    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.model.ids import Partition

HELD_S: Final = 8.0
"""After so long a partition is registered anew: the Broker's lease goes on, and retention may have moved the begin."""
AT_ONCE: Final = 64
"""Partitions asked about at the same time."""
NOTHING: Final = ("pytubemq-nothing",)
"""Message types of a hold that is to see how far the disk goes without any message being sent."""


def java_ends(
    masters: ClusterAddress,
    partitions: Sequence[Partition],
    *,
    read_group: str | None = None,
    flushed_only: bool = False,
) -> dict[Partition, Ends]:
    """Fetch, per partition, its first readable offset and the one that its next message gets, as they are now.

    With `flushed_only` the second one is where what the Broker has flushed to disk ends.

    Raises:
        OccupiedError: others hold a partition under each group that a driver asks under.
        TubeError: a Broker cannot be reached, or refuses.
    """
    way = access(masters)
    key = (os.getpid(), masters, read_group, flushed_only)
    with _lock:
        watch = _watches.get(key)
        if watch is None:
            watch = _watches[key] = EndsWatch(way.ranges, read_group=read_group, flushed_only=flushed_only)
    return way.run(watch.ask(partitions))


def refuse_time(partition: Partition) -> ConfigError:
    """Return the error for a position by time: a Java Broker does not know when a message came."""
    return ConfigError(
        f"the Broker {partition.broker_id} of {partition} cannot find offsets by time: it is a Java Broker",
        hint="start at earliest or latest, or give offsets; the column msgTime has the producer's time of each row",
    )


class EndsWatch:
    """Holds partitions to ask where they end."""

    def __init__(self, ranges: GroupRanges, *, read_group: str | None, flushed_only: bool) -> None:
        self._ranges = ranges
        self._read_group = read_group
        self._flushed_only = flushed_only
        self._held: dict[Partition, _Held] = {}
        self._few = asyncio.Semaphore(AT_ONCE)

    async def ask(self, partitions: Sequence[Partition]) -> dict[Partition, Ends]:
        """Fetch the ends of these partitions."""
        found = await asyncio.gather(*map(self._ask, partitions))
        return dict(zip(partitions, found, strict=True))

    async def _ask(self, partition: Partition) -> Ends:
        async with self._few:
            held = self._held.get(partition)
            if held is not None:
                try:
                    return await held.ends()
                except (NotRegisteredError, NotAllowedError, OccupiedError, TransportError):
                    # Occupied: the Broker forgot us, as we were slow to renew, and somebody else is there by now.
                    await self._drop(partition)
                except BaseException:
                    await self._drop(partition)
                    raise
            held = self._held[partition] = await self._take(partition)
            try:
                return await held.ends()
            except BaseException:
                await self._drop(partition)
                raise

    async def _take(self, partition: Partition) -> _Held:
        """Hold a partition; a Broker that has just started may not know the topic or the Master's token yet."""
        return await call_with_retry(
            lambda: self._take_once(partition),
            for_s=BRIEF_S,
            rng=random.random,
            briefly_too=True,
            renew_token=lambda: self._ranges.renew_token(partition.topic),
        )

    async def _take_once(self, partition: Partition) -> _Held:
        occupied: OccupiedError | None = None
        filters = NOTHING if self._flushed_only else ()
        for name in ends_group_names(read_group=self._read_group):
            hold = self._ranges.hold(partition, group=name, flushed_only=self._flushed_only, filters=filters)
            held = _Held(hold, flushed_only=self._flushed_only)
            try:
                await held.begin()
            except OccupiedError as error:
                occupied = error
            else:
                return held
        raise OccupiedError(
            f"all groups that ask for the end of partition {partition} are in use by others",
            hint="a driver that was killed is forgotten after 30 s",
            code=Code.PARTITION_OCCUPIED,
        ) from occupied

    async def _drop(self, partition: Partition) -> None:
        held = self._held.pop(partition, None)
        if held is not None:
            await held.end()


class _Held:
    """One partition, and what is known of its ends."""

    def __init__(self, hold: GroupRange, *, flushed_only: bool) -> None:
        self._hold = hold
        self._flushed_only = flushed_only
        self._began_s = 0.0
        self._fresh = False
        self._first = self._newest = 0
        self._flushed: int | None = None

    async def begin(self) -> None:
        """Register at the partition's begin, which the Broker returns."""
        self._began_s = asyncio.get_running_loop().time()
        standing = await self._hold.begin(0)
        self._first, self._newest = standing.at, standing.newest
        self._fresh = True

    async def ends(self) -> Ends:
        """Fetch both ends, as they are now."""
        if asyncio.get_running_loop().time() - self._began_s > HELD_S:
            await self.begin()
        if self._flushed_only:
            return await self._on_disk()
        if not self._fresh:
            self._newest = await self._hold.settle()
        self._fresh = False
        return Ends(self._first, self._newest)

    async def _on_disk(self) -> Ends:
        """Fetch without messages, which reads the index only, and return the end of what is on disk."""
        fetched = await self._hold.fetch()
        if fetched.flushed is not None:
            self._flushed = fetched.flushed
        known = self._first if self._flushed is None else self._flushed
        return Ends(self._first, max(self._first, min(known, fetched.newest)))

    async def end(self) -> None:
        """Hold it no more."""
        await self._hold.end()


_watches: dict[tuple[int, ClusterAddress, str | None, bool], EndsWatch] = {}
_lock = threading.Lock()
