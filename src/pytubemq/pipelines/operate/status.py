"""The status of a pipeline, from its state directory alone.

The invariant: a run whose process is gone is never reported as running. On this machine its process is looked for, on
another its heartbeat counts.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines.events import MAIN, RunStatus
from pytubemq.pipelines.report.record import read_record
from pytubemq.pipelines.state.fed_queries import checkpoint_of
from pytubemq.pipelines.state.files import RUN, STALE_S, STOP, read_object
from pytubemq.spark.observe.lag import iso

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.pipelines.report.record import RunRecord
    from pytubemq.pipelines.state.files import StateFiles

STALE_HERE_S: Final = 300.0
"""A process of this machine without a heartbeat for so long is another one that got its number."""


class RunState(StrEnum):
    """The state of a pipeline's last run."""

    RUNNING = "running"
    STOPPING = "stopping"
    """Asked to stop, and its batch is not done yet."""
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    DEAD = "dead"
    """It says that it runs, and its process is gone: killed, or its machine is."""


@dataclass(frozen=True, slots=True)
class Status:
    """One look at a pipeline."""

    run_state: RunState
    record: RunRecord
    pid: int | None
    host: str
    heartbeat_age_s: float | None
    under_way: tuple[int, ...] = ()
    """Batches that are begun and not done."""

    @property
    def doing(self) -> str | None:
        """Work of a run that no batch shows yet; None where there is nothing to say."""
        if not self.runs:
            return None
        if self.record.ready_s is None and not self.record.batch_count:
            return "starting Spark"
        if not self.under_way:
            return None if self.record.batch_count else "no batch yet"
        numbers = " and ".join(str(number) for number in self.under_way)
        return f"in batch{'es' if len(self.under_way) > 1 else ''} {numbers}"

    @property
    def runs(self) -> bool:
        """True if a process is at work."""
        return self.run_state in (RunState.RUNNING, RunState.STOPPING)

    def as_dict(self) -> dict[str, Any]:
        """Return the status for JSON; what is not known is None."""
        record = self.record
        last = record.batches[-1] if record.batches else None
        ended = not self.runs and self.run_state is not RunState.DEAD
        return {
            "pipeline": record.pipeline,
            "status": self.run_state.value,
            "doing": self.doing,
            "state": record.state,
            "run_id": record.run_id,
            "pid": self.pid,
            "host": self.host,
            "started": None if record.began_s is None else iso(record.began_s),
            "ended": None if record.ended_s is None else iso(record.ended_s),
            "heartbeat_age_s": None if ended or self.heartbeat_age_s is None else round(self.heartbeat_age_s, 1),
            "batches": record.batch_count,
            "last_batch": None if last is None else last.batch_id,
            "rows_in": record.rows_in,
            "rows_out": dict(record.rows_out),
            "rejected": record.rejected,
            "rows_per_s": round(record.rows_per_s, 1),
            "lag_rows": None if last is None else last.lag_rows,
            "lag_s": None if last is None or last.lag_s is None else round(last.lag_s, 3),
            "message": record.message,
            "hint": record.hint,
        }


def read_status(files: StateFiles, *, now_s: float | None = None) -> Status:
    """Look at a pipeline's state."""
    now_s = time.time() if now_s is None else now_s
    run = read_object(files, RUN)
    record = read_record(files)
    pid = run.get("pid")
    heartbeat = run.get("heartbeat")
    age_s = max(0.0, now_s - heartbeat) if isinstance(heartbeat, int | float) else None
    host = str(run.get("host", ""))
    run_state = RunState(record.status.value)
    if record.status is RunStatus.RUNNING:
        if not _alive(pid if isinstance(pid, int) else None, host, age_s):
            run_state = RunState.DEAD
        elif files.read_bytes(STOP) is not None:
            run_state = RunState.STOPPING
    under_way = tuple(sorted(_under_way(files, record.queries or (MAIN,))))
    return Status(run_state, record, pid if isinstance(pid, int) else None, host, age_s, under_way)


def _under_way(files: StateFiles, queries: Iterable[str]) -> set[int]:
    """Return the batches that Spark has begun and not committed."""
    begun = {query: _newest(files, f"{checkpoint_of(query)}/offsets") for query in queries}
    return {at for query, at in begun.items() if at > _newest(files, f"{checkpoint_of(query)}/commits")}


def _newest(files: StateFiles, under: str) -> int:
    return max((int(name) for name in files.names(under) if name.isdigit()), default=-1)


def _alive(pid: int | None, host: str, heartbeat_age_s: float | None) -> bool:
    age_s = float("inf") if heartbeat_age_s is None else heartbeat_age_s
    if pid is None or host != platform.node():
        return age_s < STALE_S
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # there is one, of another user
    return age_s < STALE_HERE_S
