"""A pipeline's run as a process group: the driver, its JVM and its Python workers, killed one by one or together."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.proc import kill_session, python_workers
from tests.support.waiting import until_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

TIMEOUT_S = 240.0
RUNNER = (sys.executable, "-m", "pytubemq.pipelines")


class PipelineRun:
    """`python -m pytubemq.pipelines FILE ...`; ends with the block."""

    def __init__(
        self,
        file: Path,
        *arguments: str,
        command: Sequence[str] = RUNNER,
        environ: Mapping[str, str] | None = None,
        pause_at: str | None = None,
    ) -> None:
        """`command` is what the file and the arguments are given to."""
        self._paused = file.with_name("paused")
        self._paused.mkdir(exist_ok=True)
        self.go_on()
        self.log = file.with_name("run.log")
        more = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **(environ or {})}
        if pause_at is not None:
            more |= {"PYTUBEMQ_PAUSE_AT": pause_at, "PYTUBEMQ_PAUSE_DIR": str(self._paused)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(file), *arguments],
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

        def so_far() -> object:
            reached = condition()
            assert reached or self.process.poll() is None, f"the run ended too early:\n{self.tail()}"
            return reached

        until_seen(
            so_far, timeout_s=TIMEOUT_S, every_s=0.01, why=lambda: f"the run did not come so far:\n{self.tail()}"
        )

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
        kill_session(self.process.pid)
        self.process.wait(TIMEOUT_S)

    def workers(self) -> list[int]:
        """Its Python workers that carry out tasks."""
        return python_workers(self.process.pid)

    def tail(self) -> str:
        """The end of what it said."""
        return self.log.read_text("utf-8", "replace")[-4000:]
