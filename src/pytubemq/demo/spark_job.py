"""Starts the Spark pipeline as a process of its own and listens to what it tells."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError, MissingExtraError, TubeError

if TYPE_CHECKING:
    from collections.abc import Callable

_STOP_S: Final = 10.0
_LAST_LINES: Final = 8


@dataclass(frozen=True, slots=True)
class SparkDone:
    """What the pipeline reported at its end."""

    session_s: float
    query_s: float
    batches: int
    rows_read: int
    files: tuple[str, ...]


def check_installed() -> None:
    """Find out before anything is started whether Spark can run.

    Raises:
        MissingExtraError: pyspark or pyarrow is not installed.
        ConfigError: there is no Java runtime.
    """
    from importlib.util import find_spec

    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
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


async def run_pipeline(
    *, master: str, topic: str, directory: Path, rows_per_trigger: int, on_batch: Callable[[int], None]
) -> SparkDone:
    """Run the pipeline to its end; `on_batch` gets the rows read so far after each micro-batch.

    Writes the table, the checkpoint and `spark.log` (all that Spark says) into `directory`.

    Raises:
        TubeError: it failed; the message names the log.
    """
    log = directory / "spark.log"
    command = [sys.executable, "-m", "pytubemq.demo.pipeline", "--master", master, "--topic", topic]
    command += ["--table", str(directory / "table"), "--checkpoint", str(directory / "checkpoint")]
    command += ["--rows-per-trigger", str(rows_per_trigger)]
    environment = os.environ | {
        "SPARK_LOCAL_DIRS": str(directory / "spark-local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with log.open("wb") as log_file:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log_file,
            env=environment,
            limit=16 * 1024 * 1024,
        )
    try:
        done = await _listen(process, on_batch)
        code = await process.wait()
    finally:
        await _stop(process)
    if done is None or code != 0:
        raise TubeError(f"the Spark pipeline failed (exit code {code}):\n{_tail(log)}", hint=f"all that it said: {log}")
    return done


async def _listen(process: asyncio.subprocess.Process, on_batch: Callable[[int], None]) -> SparkDone | None:
    assert process.stdout is not None
    session_s = 0.0
    done: SparkDone | None = None
    async for line in process.stdout:
        event = _event(line)
        if event.get("event") == "started":
            session_s = event["session_s"]
        elif event.get("event") == "batch":
            on_batch(event["rows_read"])
        elif event.get("event") == "done":
            files = tuple(event["files"])
            done = SparkDone(session_s, event["query_s"], event["batches"], event["rows_read"], files)
    return done


def _event(line: bytes) -> dict[str, Any]:
    """What the pipeline tells; anything else on its standard output is Spark's and not ours to read."""
    with contextlib.suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict):
            return event
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


def _tail(log: Path) -> str:
    """The end of what Spark said: the lines with an error's name, or the last ones."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    named = [line for line in lines if "pytubemq.errors." in line]
    return "\n".join((named or lines)[-_LAST_LINES:])
