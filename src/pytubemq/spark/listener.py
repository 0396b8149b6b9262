"""A listener for Spark's streaming queries: how far each is behind its topics, for Prometheus, as JSON, or as values.

    from pytubemq.spark.listener import LagListener

    spark.streams.addListener(LagListener(prometheus_port=9404))

What counts as behind is written in `pytubemq.spark.observe.lag`. The invariants: a fault in here never reaches the
query, and nothing is asked of a Broker, since all values come with Spark's own progress.
"""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from pytubemq.errors import ConfigError
from pytubemq.spark.observe.lag import NEWEST, OBSERVATION, LagMemory, QueryLag
from pytubemq.spark.observe.metrics import MOST_QUERIES, readings
from pytubemq.spark.observe.totals import QueryTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from os import PathLike

    from prometheus_client import CollectorRegistry
    from prometheus_client import Metric as Family
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

LOOPBACK: Final = "127.0.0.1"
MOST_FILE_BYTES: Final = 16 * 1024 * 1024
"""A file of JSON lines that has grown beyond this is put aside as `<name>.1`, in place of the one before."""

_log = logging.getLogger(__name__)


def observe_times(rows: DataFrame) -> DataFrame:
    """Let a query report the append times that it reads, so that its lag in seconds comes from the data.

    `rows` needs the source's column `timestamp`; call it before that is dropped.
    """
    from pyspark.sql import functions as F

    return rows.observe(OBSERVATION, F.max(F.col("timestamp")).cast("double").alias(NEWEST))


class LagListener(StreamingQueryListener):
    """Reports how far behind queries are. Of what it can do, it does what it is asked for.

    `prometheus_port`: serve the metrics in Prometheus's text format at `http://<host>:<port>/metrics`; 0 takes a free
    one, which `port` then names. `registry`: put them into a `prometheus_client` registry of yours. `json_lines`: one
    line per batch to a file, or one object per batch to a function. `on_lag`: a function that gets each `QueryLag`.
    `per_partition`: whether partitions have series of their own. Without any of these, `lags()` has the values.

    Raises:
        ConfigError: the port is taken.
    """

    def __init__(
        self,
        *,
        prometheus_port: int | None = None,
        host: str = LOOPBACK,
        registry: CollectorRegistry | None = None,
        json_lines: str | PathLike[str] | Callable[[dict[str, Any]], object] | None = None,
        on_lag: Callable[[QueryLag], object] | None = None,
        per_partition: bool = True,
    ) -> None:
        self.port: int | None = None
        self._per_partition = per_partition
        self._on_lag = on_lag
        self._json = json_lines if callable(json_lines) or json_lines is None else _Lines(Path(json_lines)).write
        self._guard = threading.Lock()
        self._memories: dict[str, LagMemory] = {}
        self._names: dict[str, str] = {}
        self._queries: dict[str, QueryTotals] = {}
        self._server: Any = None
        self._registry = registry
        if registry is not None:
            registry.register(self)
        if prometheus_port is not None:
            self._serve(prometheus_port, host)

    def lags(self) -> dict[str, QueryLag]:
        """Return the last lag of each query, by its name (its id where it has none)."""
        with self._guard:
            return {name: totals.last for name, totals in self._queries.items()}

    def close(self) -> None:
        """Stop serving, and leave the registry."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._registry is not None:
            self._registry.unregister(self)
            self._registry = None

    def collect(self) -> Iterable[Family]:
        """Return the metrics, for prometheus_client."""
        from pytubemq.observe.prometheus import family

        with self._guard:
            found = readings(self._queries, per_partition=self._per_partition)
        return [family(reading) for reading in found]

    def describe(self) -> Iterable[Family]:
        """Return nothing beforehand: a registry need not collect in order to register this."""
        return []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Note that a query has begun, perhaps anew."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take the progress of a batch."""
        try:
            self.take(event.progress)
        except Exception:
            _log.exception("a query's progress was not understood, its lag is not reported")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignore the event: nothing is new, so nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note that a query has ended."""
        key = str(event.id)
        with self._guard:
            self._memories.pop(key, None)
            totals = self._queries.get(self._names.pop(key, key))
            if totals is not None:
                totals.active = False
                totals.failures += event.exception is not None

    def take(self, progress: Any) -> QueryLag:
        """Take in a batch's progress: a `StreamingQueryProgress`, or the object that its JSON is."""
        key = str(progress["id"])
        with self._guard:
            lag = self._memories.setdefault(key, LagMemory()).take(progress)
            self._names[key] = lag.query
            totals = self._queries.pop(lag.query, None) or QueryTotals(lag)
            totals.add(lag)
            self._queries[lag.query] = totals  # at the end: the one heard of last
            while len(self._queries) > MOST_QUERIES:
                del self._queries[next(iter(self._queries))]
        if self._json is not None:
            self._json(lag.as_dict())
        if self._on_lag is not None:
            self._on_lag(lag)
        return lag

    def _serve(self, port: int, host: str) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        own = CollectorRegistry(auto_describe=False)
        own.register(self)
        try:
            self._server, _ = start_http_server(port, host, own)
        except OSError as error:
            raise ConfigError(
                f"metrics cannot be served at {host}:{port}: {error.strerror}",
                hint="take another port, or prometheus_port=0 for a free one",
            ) from error
        self.port = int(self._server.server_port)


class _Lines:
    """A file of JSON lines that does not grow without end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, value: dict[str, Any]) -> None:
        line = json.dumps(value) + "\n"
        with self._guard:
            if self._path.exists() and self._path.stat().st_size > MOST_FILE_BYTES:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
