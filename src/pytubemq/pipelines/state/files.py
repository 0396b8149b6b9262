"""A pipeline's state directory as an operator looks into it: read without Spark, and never made by looking.

The invariant: of files, only `stop` is ever written from here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytubemq.errors import NotFoundError
from pytubemq.pipelines.events import MAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN: Final = "run.json"
"""The process that runs, with its heartbeat, or the end of the last run."""
STALE_S: Final = 30.0
"""A run of another machine whose heartbeat in `run.json` is older counts as dead."""
PROGRESS: Final = "progress.jsonl"
SPEC: Final = "spec.json"
"""The pipeline that the last run was asked for, without secrets."""
STOP: Final = "stop"
"""A file of this name asks the run to end after the batch."""
LEDGER: Final = "ledger"
BACKFILLS: Final = "backfill"
"""Holds the state of each backfill, by its id."""
RANGE: Final = "range.json"
"""In a backfill's state: the range as it was asked for, and as it was then."""


class StateFiles(Protocol):
    """Files by their names relative to the state directory."""

    location: str

    def read_bytes(self, name: str) -> bytes | None:
        """Read a file's bytes; None if it is not there."""
        ...

    def names(self, under: str) -> Iterator[str]:
        """List the files directly in a directory, by their own names."""
        ...

    def directories(self, beginning: str) -> list[str]:
        """List the directories whose names begin so, by their own names."""
        ...

    def exists(self, name: str) -> bool:
        """True if there is a file or directory of that name."""
        ...

    def write(self, name: str, value: dict[str, Any]) -> None:
        """Put a JSON object in a file."""
        ...


class LocalFiles:
    """A directory of this machine."""

    def __init__(self, location: Path) -> None:
        self.location = str(location)
        self._root = location

    def read_bytes(self, name: str) -> bytes | None:
        """Read a file's bytes; None if it is not there."""
        try:
            return (self._root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def names(self, under: str) -> Iterator[str]:
        """List the files directly in a directory, by their own names."""
        place = self._root / under
        if place.is_dir():
            yield from (entry.name for entry in place.iterdir() if entry.is_file())

    def directories(self, beginning: str) -> list[str]:
        """List the directories whose names begin so, by their own names."""
        if not self._root.is_dir():
            return []
        return sorted(one.name for one in self._root.iterdir() if one.is_dir() and one.name.startswith(beginning))

    def exists(self, name: str) -> bool:
        """True if there is a file or directory of that name."""
        return (self._root / name).exists()

    def write(self, name: str, value: dict[str, Any]) -> None:
        """Put a JSON object in a file, whole or not at all."""
        target = self._root / name
        beside = target.with_name(f".{target.name}.tmp")
        beside.write_text(json.dumps(value), "utf-8")
        beside.replace(target)


def open_files(location: str) -> StateFiles:
    """Open the state directory at a path or a URI to look into it; it is empty where no pipeline has run.

    Raises:
        ConfigError: the place cannot be reached.
    """
    if "://" in location:
        from pytubemq.pipelines.state.directory import StateDirectory

        return StateDirectory(location, create=False)
    return LocalFiles(Path(location).absolute())


def state_files(location: str) -> StateFiles:
    """Open the state directory of a pipeline that has run, at a path or a URI.

    Raises:
        NotFoundError: no pipeline has run with this state.
        ConfigError: the place cannot be reached.
    """
    files = open_files(location)
    if not has_run(files):
        raise NotFoundError(
            f"there is no state of a pipeline in {files.location}: it has not run yet, or ran elsewhere",
            hint="start it with  pytubemq pipeline run FILE",
        )
    return files


def has_run(files: StateFiles) -> bool:
    """True if a pipeline has run with this state."""
    return files.read_bytes(RUN) is not None


def read_object(files: StateFiles, name: str) -> dict[str, Any]:
    """Read the JSON object in a file; empty if there is none."""
    try:
        value = json.loads(files.read_bytes(name) or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def progress_lines(files: StateFiles) -> list[dict[str, Any]]:
    """Read the events of the last runs, oldest first; a line that was cut off is left out."""
    found = []
    for line in (files.read_bytes(PROGRESS) or b"").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def ledger_entries(files: StateFiles, query: str = MAIN) -> list[dict[str, Any]]:
    """Read the ledger's entries of a query, oldest first."""
    under = LEDGER if query == MAIN else f"{LEDGER}/{query}"
    numbers = sorted(
        int(name.removesuffix(".json"))
        for name in files.names(under)
        if name.endswith(".json") and name.removesuffix(".json").isdigit()
    )
    return [read_object(files, f"{under}/{number}.json") for number in numbers]
