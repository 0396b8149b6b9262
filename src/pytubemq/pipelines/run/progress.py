"""Spark's progress of a query put together with what the batch itself has reported."""

from __future__ import annotations

import json
import queue
import time
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from pytubemq.pipelines.events import BatchDone
from pytubemq.pipelines.run.batch import BatchResult

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

INDEX_BYTES: Final = 28
"""One message in an index; offsets count these bytes."""
PREFIX: Final = "pytubemq:"
"""Before the name of a query of ours, as Spark knows it."""


LOG_ROWS: Final = "tubemq_rows"
"""The name of the count of rows that Spark's own file sink got."""


class ProgressListener(StreamingQueryListener):
    """Hands the progress of pipelines' queries to the thread that runs one; the run id says whose it is."""

    def __init__(self) -> None:
        self.progress: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignore the event."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Queue the progress of a trigger."""
        if (event.progress.name or "").startswith(PREFIX):
            self.progress.put(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignore the event."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Ignore the event: the engine sees it at the query."""


def log_result(name: str, sink: str, progress: Any) -> BatchResult | None:
    """Return the result of a batch that Spark's own file sink wrote; None if there was none."""
    observed = progress.observedMetrics.get(LOG_ROWS)
    if not progress.numInputRows or observed is None:
        return None
    return BatchResult(name, progress.batchId, rows_out={sink: int(observed["rows"])}, ended_s=time.time())


def batch_done(result: BatchResult, progress: Any) -> BatchDone:
    """Create the event of a batch."""
    millis: dict[str, int] = dict(progress.durationMs)
    total = millis.pop("triggerExecution", 0)
    lag_rows = lag(progress.sources)
    return BatchDone(
        query=result.query,
        batch_id=result.batch_id,
        rows_in=progress.numInputRows if result.rows_in is None else result.rows_in,
        rows_out=dict(result.rows_out),
        rejected=result.rejected,
        reasons=dict(result.reasons),
        examples=dict(result.examples),
        lag_rows=lag_rows,
        lag_s=_lag_s(lag_rows, result),
        seconds=total / 1000,
        parts={**{name: value / 1000 for name, value in millis.items()}, **result.parts},
        offsets=_offsets(progress.sources),
        replayed=tuple(result.replayed),
        at_s=result.ended_s,
    )


def lag(sources: Any) -> int | None:
    """Sum the messages behind the ends of all sources; None if one does not say, or in an unknown form."""
    behind = 0
    for source in sources:
        end, latest = _object(source.endOffset), _object(source.latestOffset)
        if end is None or latest is None:
            return None
        for key, offset in latest.items():
            if not isinstance(offset, int) or not isinstance(end.get(key, 0), int):
                return None
            behind += max(0, offset - end.get(key, 0))
    return behind // INDEX_BYTES


def _lag_s(lag_rows: int | None, result: BatchResult) -> float | None:
    if lag_rows == 0:
        return 0.0
    return None if result.newest_s is None else max(0.0, result.ended_s - result.newest_s)


def _offsets(sources: Any) -> dict[str, Any]:
    ends = [_object(source.endOffset) for source in sources]
    return ends[0] or {} if len(ends) == 1 else {str(at): end for at, end in enumerate(ends)}


def _object(text: Any) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
