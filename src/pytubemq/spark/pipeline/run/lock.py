"""One run at a time on a state directory, and `run.json`, which says who runs and that he is alive.

The invariant: two runs never hold the same directory at once. On one machine the system's own file lock sees to it, and
lets go when the process ends, however it ends; between machines the heartbeat in `run.json` does.
"""

from __future__ import annotations

import fcntl
import os
import platform
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.run.events import RunStatus

if TYPE_CHECKING:
    from pytubemq.spark.pipeline.run.state import StateDirectory

HEARTBEAT_S: Final = 5.0
STALE_S: Final = 30.0
"""A run of another machine that has not said anything for so long counts as dead."""
RUN: Final = "run.json"


class RunLock:
    """Holds the directory from `take` to `release`."""

    def __init__(self, state: StateDirectory, pipeline: str) -> None:
        self._state = state
        self._file: int | None = None
        self._ended = threading.Event()
        self._beat: threading.Thread | None = None
        self._writing = threading.Lock()
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

    def take(self) -> None:
        """Begin to hold it.

        Raises:
            ConfigError: another run holds it.
        """
        before = self._state.read(RUN) or {}
        if self._state.local:
            self._lock_file(before)
        if before.get("status") == RunStatus.RUNNING and self._alive(before):
            self._unlock_file()
            raise self._taken(before)
        self._tell()
        self._beat = threading.Thread(target=self._keep_telling, name="pipeline-heartbeat", daemon=True)
        self._beat.start()

    def note(self, **facts: Any) -> None:
        """Say more in `run.json`."""
        with self._writing:
            self._facts.update(facts)
        self._tell()

    def release(self, status: RunStatus, **facts: Any) -> None:
        """Let go, and say how the run ended."""
        self._ended.set()
        if self._beat is not None:
            self._beat.join(HEARTBEAT_S)
        self.note(status=status.value, ended=time.time(), **facts)
        self._unlock_file()

    def _keep_telling(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            self._tell()

    def _tell(self) -> None:
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
        except BlockingIOError as error:
            os.close(file)
            raise self._taken(before) from error
        self._file = file

    def _unlock_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _taken(self, other: dict[str, Any]) -> ConfigError:
        who = f"process {other.get('pid', '?')} on {other.get('host', '?')}"
        return ConfigError(
            f"pipeline {self._facts['pipeline']} runs already: {who} holds {self._state.location}",
            hint=f"stop that run first; after a crash on another machine it counts as dead {STALE_S:.0f} s later",
        )
