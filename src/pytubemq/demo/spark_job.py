"""The demo's pipeline: the file `flights.yaml`, carried out by `pytubemq pipeline run` in a process of its own.

The invariant: it runs as it does for everybody. Its progress comes as JSON on standard error and its
result on standard output; its error becomes ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError, MissingExtraError, TubeError

if TYPE_CHECKING:
    from collections.abc import Callable

PIPELINE: Final = "flights.yaml"
_STOP_S: Final = 10.0
_MOST_LINE_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SparkDone:
    """The pipeline's report at its end."""

    session_s: float
    """From the start of the process until the query ran."""
    query_s: float
    batches: int
    rows_read: int
    table: Path
    report: Path


def check_installed() -> None:
    """Check that Spark can run, before anything is started.

    Raises:
        MissingExtraError: pyspark or pyarrow is not installed.
        ConfigError: there is no Java runtime.
    """
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("pyspark", "pyarrow", "yaml")):
        raise MissingExtraError("demo", "the demo's Spark pipeline")
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else None
    if java is not None and not java.is_file():
        raise ConfigError(f"JAVA_HOME is {home}, and there is no {java}", hint="let it name a Java 17+ runtime")
    if java is None and shutil.which("java") is None:
        raise ConfigError(
            "the demo's Spark pipeline needs a Java 17+ runtime, and there is none",
            hint="on Debian or Ubuntu:  apt-get install openjdk-17-jre-headless",
        )


def pipeline_file() -> Path:
    """Return the path of the installed pipeline file."""
    return Path(str(files("pytubemq.demo") / PIPELINE))


async def run_pipeline(
    *, master: str, topic: str, directory: Path, rows_per_trigger: int, report: Path, on_batch: Callable[[int], None]
) -> SparkDone:
    """Run the pipeline to its end; `on_batch` gets the rows read so far after each micro-batch.

    Writes the table, the rejected records and the state with `spark.log` (all output of Spark) into `directory`.

    Raises:
        TubeError: it failed; the message names the log.
    """
    variables = {"master": master, "topic": topic, "rows": str(rows_per_trigger), "out": str(directory)}
    command = [sys.executable, "-m", "pytubemq", "pipeline", "run", str(pipeline_file()), "--once"]
    command += ["--progress", "json", "-o", "json", "--report", str(report)]
    command += [word for name, value in variables.items() for word in ("--set", f"{name}={value}")]
    environment = os.environ | {
        "SPARK_LOCAL_DIRS": str(directory / "spark-local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    begun_s = asyncio.get_running_loop().time()
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        limit=_MOST_LINE_BYTES,
    )
    events = _JobEvents(on_batch, begun_s)
    try:
        assert process.stdout is not None
        output, _ = await asyncio.gather(process.stdout.read(), events.listen(process))
        code = await process.wait()
    finally:
        await _stop(process)
    result = _object(output)
    if code != 0 or not result:
        raise events.error(code)
    return SparkDone(
        events.session_s, events.query_s, result["batches"], result["rows_in"], directory / "table", report
    )


class _JobEvents:
    """The state of the run according to its output so far."""

    def __init__(self, on_batch: Callable[[int], None], begun_s: float) -> None:
        self.session_s = 0.0
        self.query_s = 0.0
        self._rows = 0
        self._on_batch = on_batch
        self._begun_s = begun_s
        self._started_at_s = 0.0
        self._failure: dict[str, Any] = {}
        self._last = ""

    async def listen(self, process: asyncio.subprocess.Process) -> None:
        """Read the output until it ends."""
        assert process.stderr is not None
        async for line in process.stderr:
            event = _object(line)
            match event.get("event"):
                case "Started":
                    self.session_s = asyncio.get_running_loop().time() - self._begun_s
                    self._started_at_s = event["at_s"]
                case "BatchDone":
                    self._rows += event["rows_in"]
                    self._on_batch(self._rows)
                case "Finished":
                    self.query_s = event["at_s"] - self._started_at_s
                case None if "message" in event:
                    self._failure = event
                case None:
                    self._last = line.decode(errors="replace").strip() or self._last

    def error(self, code: int) -> TubeError:
        """Return the run's own error."""
        message = self._failure.get("message") or self._last or "it printed nothing"
        hint = self._failure.get("try")
        return TubeError(f"the Spark pipeline failed (exit code {code}): {message}", hint=hint)


def _object(text: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict):
            return value
    return {}


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()
