"""A pipeline's run as a process group: the driver, its JVM and its Python workers, killed one by one or together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

TIMEOUT_S = 240.0
WORKER = "pyspark.daemon"


class PipelineRun:
    """`python -m pytubemq.spark.pipeline FILE ...`; ends with the block."""

    def __init__(
        self, file: Path, *arguments: str, environ: Mapping[str, str] | None = None, pause_at: str | None = None
    ) -> None:
        self._paused = file.with_name("paused")
        self._paused.mkdir(exist_ok=True)
        self.go_on()
        self.log = file.with_name("run.log")
        more = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **(environ or {})}
        if pause_at is not None:
            more |= {"PYTUBEMQ_PAUSE_AT": pause_at, "PYTUBEMQ_PAUSE_DIR": str(self._paused)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytubemq.spark.pipeline", str(file), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **more},
                cwd=file.parent,
                start_new_session=True,
            )

    def __enter__(self) -> PipelineRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def until_paused(self) -> None:
        """Until the run stands where it was told to."""
        self.until(lambda: any(self._paused.iterdir()))

    def go_on(self) -> None:
        """Let a run go on that stands where it was told to."""
        for point in self._paused.iterdir():
            point.unlink()

    def until(self, condition: Callable[[], object]) -> None:
        """Until something is so; fails if the run ends before."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert self.process.poll() is None, f"the run ended too early:\n{self.tail()}"
            assert time.monotonic() < deadline, f"the run did not come so far:\n{self.tail()}"
            time.sleep(0.01)

    def fail(self) -> str:
        """Until it fails, as it should; what it said."""
        assert self.process.wait(TIMEOUT_S) != 0, f"the run should have failed:\n{self.tail()}"
        return self.tail()

    def end(self) -> None:
        """Until it ends by itself, as it should."""
        code = self.process.wait(TIMEOUT_S)
        assert code == 0, f"the run failed (exit code {code}):\n{self.tail()}"

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and all workers at once."""
        for pid in self._group():  # by session: Spark's daemon is in a process group of its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(TIMEOUT_S)

    def workers(self) -> list[int]:
        """Its Python workers that carry out tasks: children of the daemon, not the daemon itself."""
        daemons = {pid for pid in self._group() if WORKER in _command(pid)}
        return sorted(pid for pid in daemons if _parent(pid) in daemons)

    def tail(self) -> str:
        """The end of what it said."""
        return self.log.read_text("utf-8", "replace")[-4000:]

    def _group(self) -> list[int]:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _session(pid) == self.process.pid]


def _stat(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _session(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[3]) if fields else None


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""
