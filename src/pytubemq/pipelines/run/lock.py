"""One run at a time on a state directory, and `run.json`, which says who runs and that he is alive.

The invariant: two runs never hold the same directory at once. On one machine the system's own file lock sees to it, and
lets go when the process ends, however it ends. Between machines the heartbeat in `run.json` does, as far as a file can:
a run that takes the directory looks again after a pause whether it is still named there, and so does each heartbeat and
each batch; the run that is not named ends, and writes nothing there any more.
"""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.events import RunStatus
from pytubemq.pipelines.spark_faults import PipelineError
from pytubemq.pipelines.state.files import RUN, STALE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.errors import TubeError
    from pytubemq.pipelines.state.directory import StateDirectory

logger = logging.getLogger(__name__)

HEARTBEAT_S: Final = 5.0
LOOK_AGAIN_S: Final = 2.0
"""Where nothing but `run.json` keeps two runs apart: the pause after which a run looks whether it has the directory."""


class RunLock:
    """Holds the directory from `take` to `release`."""

    def __init__(self, state: StateDirectory, pipeline: str) -> None:
        self._state = state
        self._file: int | None = None
        self._ended = threading.Event()
        self._beat: threading.Thread | None = None
        self._writing = threading.Lock()
        self._lost: TubeError | None = None
        self._on_lost: Callable[[TubeError], None] = lambda error: None
        self._looked_s = 0.0
        self._facts: dict[str, Any] = {
            "pipeline": pipeline,
            "run_id": uuid.uuid4().hex,
            "pid": os.getpid(),
            "host": platform.node(),
            "started": time.time(),
            "status": RunStatus.RUNNING.value,
        }

    @property
    def run_id(self) -> str:
        """New for each run."""
        return str(self._facts["run_id"])

    @property
    def started_s(self) -> float:
        """The time when the run began, in seconds since 1970."""
        return float(self._facts["started"])

    def take(
        self,
        *,
        first: Callable[[], None] = lambda: None,
        on_lost: Callable[[TubeError], None] = lambda error: None,
    ) -> None:
        """Begin to hold it.

        Args:
            first: called once it is held, before anyone is notified.
            on_lost: called, on a thread of its own, when another run has taken the directory over.

        Raises:
            ConfigError: another run holds it.
        """
        before = self._state.read(RUN) or {}
        if self._state.local:
            self._lock_file(before)
        if before.get("status") == RunStatus.RUNNING and self._alive(before):
            self._unlock_file()
            raise self._taken(before)
        self._on_lost = on_lost
        first()
        self._write_facts()
        if not self._state.local:
            time.sleep(LOOK_AGAIN_S)
            if (other := self._another()) is not None:
                raise self._taken(other)
        self._looked_s = time.time()
        self._beat = threading.Thread(target=self._keep_telling, name="pipeline-heartbeat", daemon=True)
        self._beat.start()

    def check(self) -> None:
        """See to it that it is still held; looks into `run.json` where a heartbeat is overdue, as after a standstill.

        Raises:
            PipelineError: another run has taken the directory over.
        """
        # by the clock, which goes on while the machine sleeps
        if self._lost is None and abs(time.time() - self._looked_s) > 2 * HEARTBEAT_S:
            self._look()
        if self._lost is not None:
            raise self._lost

    def note(self, **facts: Any) -> None:
        """Add facts to `run.json`."""
        with self._writing:
            self._facts.update(facts)
        if self._lost is None:
            self._write_facts()

    def release(self, status: RunStatus, *, at_s: float | None = None, **facts: Any) -> None:
        """Let go, and say how the run ended and when, unless the directory is another's by now."""
        self._ended.set()
        if self._beat is not None:
            self._beat.join(HEARTBEAT_S)
        try:
            self.note(status=status.value, ended=time.time() if at_s is None else at_s, **facts)
        finally:
            self._unlock_file()

    def _keep_telling(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            try:
                self._look()
                if self._lost is not None:
                    self._on_lost(self._lost)
                    return
                self._write_facts()
            except Exception as error:  # a full disk or a short outage; the next one may get through
                logger.warning("the heartbeat in %s/%s cannot be written: %s", self._state.location, RUN, error)

    def _look(self) -> None:
        """Find out whether it is still held."""
        if (other := self._another()) is not None:
            self._lost = PipelineError(
                f"process {other.get('pid', '?')} on {other.get('host', '?')} has taken over {self._state.location}: "
                f"this run gave no sign of life for {STALE_S:.0f} s",
                hint="the other run continues after the last complete batch; let only one of them run",
            )
        self._looked_s = time.time()

    def _another(self) -> dict[str, Any] | None:
        """Return the run that `run.json` names, if it is not this one."""
        there = self._state.read(RUN)
        return None if there is None or there.get("run_id") == self._facts["run_id"] else there

    def _write_facts(self) -> None:
        with self._writing:
            self._facts["heartbeat"] = time.time()
            self._state.write(RUN, self._facts)

    def _alive(self, other: dict[str, Any]) -> bool:
        if self._state.local and other.get("host") == self._facts["host"]:
            return False  # its file lock would have been in our way
        heartbeat = other.get("heartbeat")
        return isinstance(heartbeat, int | float) and time.time() - heartbeat < STALE_S

    def _lock_file(self, before: dict[str, Any]) -> None:
        file = os.open(self._state.of_spark("lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise self._taken(before) from None
        self._file = file

    def _unlock_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _taken(self, other: dict[str, Any]) -> ConfigError:
        here = self._state.local and other.get("host") == self._facts["host"]
        who = f"process {other.get('pid', '?')} on {other.get('host', '?')}"
        return ConfigError(
            f"pipeline {self._facts['pipeline']} runs already: {who} uses {self._state.location}",
            hint="stop that run first:  pytubemq pipeline stop FILE"
            + ("" if here else f"; after a crash it counts as dead {STALE_S:.0f} s later"),
        )
