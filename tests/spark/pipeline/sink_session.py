"""A Spark session with the jars of all sinks, in a process of its own: a JVM takes jars at its start only.

`SinkSession` is the test's side; the module run as a program is the other. Each call names a function of
`sink_scenarios` and its arguments; the answer is what it returned, as JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.artifacts import jars
from tests.support.proc import kill_session, of_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

ROOT = Path(__file__).parents[3]
SETS = ("delta", "iceberg", "kafka", "postgres")
SCENARIOS = "tests.spark.pipeline.sink_scenarios"
TIMEOUT_S = 240.0
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of a JVM that ends before its best code would pay."""


class SinkSession:
    """Calls functions in a process that has such a session; ends with the block."""

    def __init__(
        self, scratch: Path, *, tasks: int = 2, log: str = "session.log", environ: Mapping[str, str] | None = None
    ) -> None:
        """`tasks` run at once; `log` is the name of its log in `scratch`; its Python workers see `environ`, too."""
        self._log = scratch / log
        more = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **(environ or {})}
        paths = (str(ROOT), os.environ.get("PYTHONPATH"))  # of its Python workers, which begin elsewhere
        with self._log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.pipeline.sink_session", str(scratch), str(tasks)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                cwd=ROOT,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more},
                start_new_session=True,
            )

    def __enter__(self) -> SinkSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        self._process.communicate(timeout=60)

    def call(self, scenario: str, **arguments: Any) -> Any:
        """What a scenario returned; raises what it raised, as text."""
        self.ask(scenario, **arguments)
        return self._answer()

    def ask(self, scenario: str, **arguments: Any) -> None:
        """Begin a scenario, and do not wait for it: it is killed before it has an answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"scenario": scenario, "arguments": arguments}) + "\n")
        self._process.stdin.flush()

    def until(self, condition: Callable[[], object], *, look_s: float = 0.01) -> None:
        """Until something is so; fails if what was asked ends before."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"it did not come so far: {self._tail()}"
            assert not select.select([self._process.stdout], [], [], look_s)[0], f"it ended with {self._answer()}"

    def processes(self) -> list[int]:
        """The driver, its JVM and its Python workers."""
        return of_session(self._process.pid)

    def kill(self, processes: Sequence[int] | None = None) -> None:
        """SIGKILL to all of them at once, or to those that are named first."""
        for pid in processes or ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        kill_session(self._process.pid)
        self._process.wait(TIMEOUT_S)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("answer: "):
                answer = json.loads(line.removeprefix("answer: "))
                assert "error" not in answer, answer["error"]
                return answer["value"]
        raise AssertionError(f"the session ended: {self._tail()}")

    def _tail(self) -> str:
        return self._log.read_text("utf-8", "replace")[-4000:]


def all_jars() -> list[str]:
    """The jars of all sinks."""
    return [str(path) for name in SETS for path in jars(name)]


def serve(scratch: Path, tasks: int) -> None:
    """Carry out what comes on standard input, until its end."""
    from pyspark.sql import SparkSession

    from pytubemq.pipelines.file.model import Pipeline, Source, SparkSettings
    from pytubemq.pipelines.run.session import settings

    conf = {
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(scratch / "ice"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} {SHORT_LIVED}",
    }
    pipeline = Pipeline(
        "sinks", Source(), spark=SparkSettings(master=f"local[{tasks},4]", conf=conf, jars=tuple(all_jars()))
    )
    builder: Any = SparkSession.builder
    for key, value in settings(pipeline, ["delta"]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    scenarios = importlib.import_module(SCENARIOS)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"value": getattr(scenarios, asked["scenario"])(spark, **asked["arguments"])}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print("answer: " + json.dumps(answer, default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
