"""A Spark session with the jars of all sinks, in a process of its own: a JVM takes jars at its start only.

`SinkSession` is the test's side; the module run as a program is the other. Each call names a function of
`sink_scenarios` and its arguments; the answer is what it returned, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.artifacts import jars

if TYPE_CHECKING:
    from types import TracebackType

ROOT = Path(__file__).parents[3]
SETS = ("delta", "iceberg", "kafka", "postgres")
SCENARIOS = "tests.spark.pipeline.sink_scenarios"


class SinkSession:
    """Calls functions in a process that has such a session; ends with the block."""

    def __init__(self, scratch: Path) -> None:
        self._log = scratch / "session.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.pipeline.sink_session", str(scratch)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                text=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            )

    def __enter__(self) -> SinkSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def call(self, scenario: str, **arguments: Any) -> Any:
        """What a scenario returned; raises what it raised, as text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"scenario": scenario, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("answer: "):
                answer = json.loads(line.removeprefix("answer: "))
                assert "error" not in answer, answer["error"]
                return answer["value"]
        raise AssertionError(f"the session ended: {self._log.read_text()[-4000:]}")


def all_jars() -> list[str]:
    """The jars of all sinks."""
    return [str(path) for name in SETS for path in jars(name)]


def serve(scratch: Path) -> None:
    """Carry out what comes on standard input, until its end."""
    from pyspark.sql import SparkSession

    from pytubemq.spark.pipeline.run.session import settings
    from pytubemq.spark.pipeline.spec.model import Pipeline, SinkFormat, Source, SparkSettings

    conf = {
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(scratch / "ice"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch}",
    }
    pipeline = Pipeline("sinks", Source(), spark=SparkSettings(master="local[2,4]", conf=conf, jars=tuple(all_jars())))
    builder: Any = SparkSession.builder
    for key, value in settings(pipeline, [SinkFormat.DELTA]).items():
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
    serve(Path(sys.argv[1]))
