"""The session's one run, and the matrix at its end."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling

from .rows import ROWS
from .runner import Result, Runner
from .system import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

MATRIX = ("test_matrix.py", "::test_a_java_masters_visit_token_is_shown_and_fetched_anew")
"""They use the one run of the matrix, so they share a process."""
RESULTS = pytest.StashKey[dict[tuple[str, str], Result]]()


@pytest.fixture(scope="session")
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """Servers and clients for all cells that this session runs."""
    running = Runner(tmp_path_factory.mktemp("interop"))
    request.config.stash[RESULTS] = running.results
    cells = {
        (str(item.callspec.params["row"]), str(item.callspec.params["column"]))
        for item in request.session.items
        if isinstance(item, pytest.Function) and "row" in getattr(item, "fixturenames", ())
    }
    try:
        running.start(sorted(cells))
        yield running
    finally:
        running.close()


class MatrixScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A file's tests in one process, all that use the matrix in another."""

    def _split_scope(self, nodeid: str) -> str:
        if any(part in nodeid for part in MATRIX):
            return "matrix"
        scope: str = super()._split_scope(nodeid)
        return scope


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> MatrixScheduling | None:
    """Divide the tests for `--dist loadfile`."""
    return MatrixScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the results to the process that prints them, if this is one of several."""
    results = session.config.stash.get(RESULTS, None)
    if results and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["interop"] = [(*cell, asdict(found)) for cell, found in results.items()]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the results of a process that has ended."""
    for row, column, found in getattr(node, "workeroutput", {}).get("interop", ()):
        node.config.stash.setdefault(RESULTS, {})[row, column] = Result(**found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the matrix, and write it where that was asked for."""
    results = config.stash.get(RESULTS, None)
    if not results:
        return
    terminalreporter.section("interop matrix")
    for line in _matrix(results):
        terminalreporter.write_line(line)
    path = config.getoption("--interop-matrix", default=None)
    if path:
        rows = [{"row": row, "column": column, **asdict(found)} for (row, column), found in sorted(results.items())]
        Path(path).write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


def _matrix(results: dict[tuple[str, str], Result]) -> list[str]:
    width = max(map(len, ROWS))
    lines = [" " * width + "  " + "  ".join(f"{column:>29}" for column in COLUMNS)]
    for row in ROWS:
        cells = [_cell(results.get((row, column))) for column in COLUMNS]
        lines.append(f"{row:<{width}}  " + "  ".join(f"{cell:>29}" for cell in cells))
    lines += [
        f"{row} | {column}: {json.dumps(found.numbers)}"
        for (row, column), found in sorted(results.items())
        if found.numbers.keys() - {"messages"}
    ]
    return lines


def _cell(found: Result | None) -> str:
    if found is None:
        return "-"
    if not found.passed:
        return "FAILED"
    return f"ok {found.numbers.get('messages', 0):,} in {found.seconds:.0f} s"
