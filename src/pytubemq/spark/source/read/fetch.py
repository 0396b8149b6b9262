"""Ranges of pytubemq Brokers as Arrow batches: fetched ahead, through restarts of Brokers, over kept connections.

Connections are kept per process, at module level, as the cluster's are. The invariant: whatever fails, a range yields
each of its rows once and in order, because every try goes on after the last row handed out.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING, Final

from pytubemq.client.reader.range_reads import DamagedRangeError, RangeWay
from pytubemq.client.session.cluster_connection import OLD_TOKEN, is_refusal
from pytubemq.client.sync.ranges import range_way
from pytubemq.core.retry import BRIEF_S, Backoff
from pytubemq.errors import Code, CorruptError, NotFoundError, OffsetMovedError, TransportError, TubeError
from pytubemq.spark.source.arrow import BatchBuilder
from pytubemq.spark.source.planning.plan import OffsetRange, data_loss
from pytubemq.spark.source.read import source_connection
from pytubemq.spark.source.read.fetch_rows import build
from pytubemq.spark.task_secret import signs_itself

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo
    from typing import Any

    from pytubemq.client.reader.range_reads import RangeConnection, Stretch
    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.spark.source.planning.plan import Ends
    from pytubemq.spark.source.read.source_connection import Cluster

    OnLoss = Callable[[OffsetRange, Ends], None]

FETCH_BYTES: Final = 4 * 1024 * 1024
"""Payload asked for in one fetch, which becomes one batch: enough that work per batch does not count."""
FETCH_MESSAGES: Final = 32_768
MOST_KEPT: Final = 16
"""Connections kept in a process while nobody reads over them."""
_BACKOFF: Final = Backoff(first_s=0.1, most_s=2.0)

_Key = tuple[int, "ClusterAddress", int]
_kept: list[tuple[_Key, RangeConnection]] = []
_kept_lock = threading.Lock()


def fetched_batches(
    cluster: Cluster,
    wanted: OffsetRange,
    columns: Sequence[str],
    *,
    time_zone: tzinfo,
    fail_on_data_loss: bool = True,
    filters: Sequence[str] = (),
    on_loss: OnLoss | None = None,
) -> Iterator[Any]:
    """Yield the rows of a range as `pyarrow.RecordBatch`es with these columns, in order, none of them empty.

    Args:
        cluster: where the Broker is found.
        wanted: the range, which the Broker had when it was planned.
        columns: their names, of `schema.COLUMNS`.
        time_zone: of the clock of `msgTime`.
        fail_on_data_loss: raise an error for rows that are gone; otherwise they are left out.
        filters: only rows with one of these message types; all without any.
        on_loss: called with every hole that is left out, and with what the Broker has.

    Raises:
        OffsetMovedError: the Broker no longer has them all and `fail_on_data_loss` is set.
        CorruptError: a message cannot be read and `fail_on_data_loss` is set; the rows before it have come.
        TransportError: the Broker was away for longer than `OUTAGE_S`.
    """
    builder = BatchBuilder(wanted.partition, columns, time_zone)
    types = frozenset(filters)
    reading = _Reading(cluster, wanted, types)
    while reading.at < wanted.end:
        try:
            for stretch in reading.stretches():
                if len(stretch.rows):
                    batch = build(builder, stretch.rows, wanted=types or None)
                    if batch.num_rows:
                        yield batch
                reading.got(stretch)
        except OffsetMovedError as error:
            reading.pass_over(error, fail=fail_on_data_loss, on_loss=on_loss)
        except DamagedRangeError as error:
            reading.pass_damage(error, fail=fail_on_data_loss, on_loss=on_loss)
        except TubeError as error:
            reading.try_again(error)


class _Reading:
    """The progress of reading a range, and the response to failures."""

    def __init__(self, cluster: Cluster, wanted: OffsetRange, filters: frozenset[str]) -> None:
        self.at = wanted.start
        self._cluster = cluster
        self._wanted = wanted
        self._wanted_types = self._filters = filters
        self._tries = 0
        self._since_s = time.monotonic()
        self._refused_since_s: float | None = None
        """When the first of the refused tokens in a row came that end with the last failure; None: it was another."""
        self._was_kept = False
        self._damaged_at: int | None = None

    def stretches(self) -> Iterator[Stretch]:
        """Read the rest of the range over one connection, which is kept if the range was read to its end."""
        connection = self._connection()
        try:
            yield from connection.read(
                self._wanted.partition,
                self.at,
                self._wanted.end,
                filters=self._filters,
                max_messages=FETCH_MESSAGES,
                max_bytes=FETCH_BYTES,
            )
        except BaseException:
            connection.close()
            raise
        _keep(self._key, connection)

    def got(self, stretch: Stretch) -> None:
        """Note that it has been handed out."""
        self.at = stretch.next_offset
        self._tries, self._since_s = 0, time.monotonic()
        self._was_kept, self._refused_since_s = False, None

    def pass_over(self, error: OffsetMovedError, *, fail: bool, on_loss: OnLoss | None) -> None:
        """Skip rows that are gone: go on at the first one kept behind them, or end.

        Raises:
            OffsetMovedError: that is an error.
        """
        wanted = self._wanted
        there = self._cluster.ends_of(wanted.partition)
        if fail:
            raise data_loss(wanted, there) from error
        following = min(there.min_offset, wanted.end) if there.min_offset > self.at else wanted.end
        if on_loss is not None:
            on_loss(OffsetRange(wanted.partition, self.at, following), there)
        self.at = following

    def pass_damage(self, error: DamagedRangeError, *, fail: bool, on_loss: OnLoss | None) -> None:
        """Skip messages that cannot be read: go on behind them, or end.

        Before they are given up they are asked for a second time, without filters, so that none is lost but those.

        Raises:
            CorruptError: that is an error.
        """
        if fail:
            raise CorruptError(
                error.message,
                hint="the Broker's files are damaged there; to leave such messages out, set "
                '.option("failOnDataLoss", "false"), or "report" to have it written down',
                code=error.code,
            ) from error
        if self._filters or self._damaged_at != error.start:
            self._filters = frozenset()
            self._damaged_at = error.start
            return
        if on_loss is not None:
            partition = self._wanted.partition
            on_loss(OffsetRange(partition, error.start, error.end), self._cluster.ends_of(partition))
        self.at, self._filters = error.end, self._wanted_types

    def try_again(self, error: TubeError) -> None:
        """Wait a little, if it is worth another try.

        Raises:
            TubeError: it is not, or the time is over.
        """
        if self._was_kept and isinstance(error, TransportError):
            self._was_kept = False  # it ended while nobody used it
            return
        now_s, since_s = time.monotonic(), None
        if is_refusal(error, Code.CERTIFICATE_FAILURE):
            since_s = now_s if self._refused_since_s is None else self._refused_since_s
        self._refused_since_s = since_s
        if not isinstance(error, TransportError):
            self._cluster.forget()
        may_mend = source_connection.may_mend(error) or isinstance(error, NotFoundError) or since_s is not None
        is_over = now_s - self._since_s > source_connection.OUTAGE_S or (
            since_s is not None and now_s - since_s > BRIEF_S
        )
        if not may_mend or is_over:
            if since_s is not None and self._cluster.known is not None and self._cluster.known.client_token:
                error.hint = OLD_TOKEN
            raise error
        self._tries += 1
        time.sleep(_BACKOFF.delay_s(self._tries, random.random))

    @property
    def _key(self) -> _Key:
        return os.getpid(), self._cluster.masters, self._wanted.partition.broker_id

    def _connection(self) -> RangeConnection:
        partition, known = self._wanted.partition, self._cluster.known
        way = None
        # Without a client token a task shows a signature of its own, which only the client makes.
        if known is not None and not self._tries and not signs_itself(self._cluster.masters, known):
            way = RangeWay.known(known, partition.broker_id, client_name="spark", tls=self._cluster.masters.tls)
        kept = None if self._tries else _kept_one(self._key)
        self._was_kept = kept is not None
        if kept is not None:
            return kept.with_tokens_of(way)
        if way is None:  # not known, or not there any more: the Master is asked
            way = range_way(self._cluster.tube(), partition, renew_token=self._refused_since_s is not None)
        return way.connect()


def close_kept() -> None:
    """Close this process's connections that nobody reads over."""
    with _kept_lock:
        closing = _of_this_process()
        _kept.clear()
    for _, connection in closing:
        connection.close()


def _of_this_process() -> list[tuple[_Key, RangeConnection]]:
    """Return the connections of this process: a forked worker must not use its parent's sockets."""
    return [kept for kept in _kept if kept[0][0] == os.getpid()]


def _kept_one(key: _Key) -> RangeConnection | None:
    with _kept_lock:
        for at, (kept, connection) in enumerate(_kept):
            if kept == key:
                del _kept[at]
                return connection
    return None


def _keep(key: _Key, connection: RangeConnection) -> None:
    with _kept_lock:
        _kept[:] = [*_of_this_process(), (key, connection)]
        excess = _kept[:-MOST_KEPT]
        del _kept[:-MOST_KEPT]
    for _, oldest in excess:
        oldest.close()
