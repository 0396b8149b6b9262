"""Spark's own standalone master and workers as processes that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from tests.support.ports import free_port
from tests.support.proc import DIE_WITH_US, kill_session, of_session
from tests.support.waiting import until_seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

TIMEOUT_S = 120.0


class StandaloneSpark:
    """`spark://127.0.0.1:PORT` with two workers of one core each; executors of a killed worker die with it."""

    def __init__(self, home: Path, *, workers: int = 2) -> None:
        self._home = home
        self._port = free_port()
        self._ui = free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._count = workers
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> StandaloneSpark:
        self._home.mkdir(parents=True, exist_ok=True)
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", str(self._port),
                    "--webui-port", str(self._ui))  # fmt: skip
        self._until(lambda: self._alive() >= 0, "the master does not answer")
        for number in range(self._count):
            self.start_worker(number)
        self._until(lambda: self._alive() == self._count, "the workers are not registered")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._processes):
            self._kill(name)

    def start_worker(self, number: int) -> None:
        """A worker of one core."""
        self._start(f"worker-{number}", "worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
                    "--webui-port", "0", "--work-dir", str(self._home / f"work-{number}"), self.master)  # fmt: skip

    def kill_worker(self, number: int) -> None:
        """SIGKILL to a worker, its executors and their Python workers."""
        self._kill(f"worker-{number}")

    def executors(self, number: int) -> list[int]:
        """Processes of a worker beside itself."""
        worker = self._processes[f"worker-{number}"]
        return [pid for pid in of_session(worker.pid) if pid != worker.pid]

    def _start(self, name: str, main: str, *arguments: str) -> None:
        environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
        environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(self._home / "local")}
        environ |= {"SPARK_WORKER_DIR": str(self._home / name), "SPARK_DAEMON_MEMORY": "512m"}
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        with (self._home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*DIE_WITH_US, *command, *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, start_new_session=True,
            )  # fmt: skip

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        kill_session(process.pid)
        process.wait(TIMEOUT_S)

    def applications(self) -> list[str]:
        """The names of those that have run here, or do."""
        state = self._state()
        return [one["name"] for one in (*state["activeapps"], *state["completedapps"])]

    def _alive(self) -> int:
        """How many workers the master has; -1 if it does not answer."""
        try:
            return int(self._state()["aliveworkers"])
        except OSError:
            return -1

    def _state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ui}/json/", timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def _until(self, condition: Callable[[], object], what: str) -> None:
        until_seen(condition, timeout_s=TIMEOUT_S, every_s=0.05, why=lambda: f"{what}; the logs are in {self._home}")
