"""The page docs/reference/features.md: made of what shows each feature (features.toml) and of one interop run.

The invariant: a ✔ stands only where a test is named that is there, or a row of the matrix that passed wherever it runs.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .rows import ROWS, columns_of
from .system import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/features.md"
DATA = Path(__file__).with_name("features.toml")
RESULTS = ROOT / "docs/reference/interop-results.json"
POM = Path(__file__).parent / "java/pom.xml"

CLIENTS = {"java": "Java", "cpp": "C++ (its frames)", "go": "Go (its frames)", "pytubemq": "pytubemq"}
MARKS = {"yes": "✔", "in part": "in part", "no": "no", "not shown": "\N{EN DASH}"}
SHOWN = ("yes", "in part")
FAILED = "✘"
FIRST_MESSAGE = "A new group's first message"
TIMES = {
    FIRST_MESSAGE: {"first_message_s": "Java pull consumer: `completeSubscribe` to the first message"},
    "Members join, leave and are killed": {
        "java_killed_s": "a Java member is killed: its partitions are with others",
        "ours_killed_s": "a pytubemq member is killed: its partitions are with others",
    },
    "A topic gets more partitions while in use": {"grown_s": "a topic gets more partitions: a running group has them"},
    "The Broker restarts": {"back_s": "the Broker restarts: 100 more messages of each producer are acknowledged"},
}
"""The times worth telling: row, number and what it is."""

HEAD = """\
# What clients can do

<!-- written by scripts/docs/write -->

The rows are the features by which TubeMQ clients are compared.

| mark | meaning |
|---|---|
| ✔ | a test of this repository shows the feature |
| in part | a test shows some of it; the tables below say what is missing |
| no | the client does not have the feature |
| {unknown} | no test here shows it, whether the client has it or not |

- **Java** is the official client {client}, run against the official servers {server}, against pytubemq's, and against
  one of each ([the matrix](#the-matrix)).
- **C++** and **Go** are tested by the frames that these clients send and expect, not by running their programs. The
  text beside a {unknown} or a "no" is known about the program, but not tested here.
- **pytubemq** is the client of this package.
"""
MATRIX = """\
## The matrix

Every cell is one kind of client, or one event, on one pair of Master and Broker. Each of the first {count}
rows compares at least 20,000 messages one by one: body, attributes, type, time, order in each partition; none is lost,
and none comes twice. In the rows below them a message may come twice where the protocol allows it, and that is counted.
A number is the number of messages compared in the run of {date}; ✘ is a cell that did not pass. A cell is empty where
there is nothing to test: only a Java Master makes its Brokers check visit tokens without any other authentication, and
with authentication on it refuses the heartbeats of Java clients.
"""
TIMES_HEAD = """\
## Times of the same run

In seconds, on a machine on which many cells ran at once. Only in the first line were the servers otherwise idle (one
try with a Java Master, three with a pytubemq Master). Java clients send a heartbeat every 13 s, and the servers have
the settings of the tests, so compare these times only with each other.
"""
REFRESH = """\
## How this page is made

`tests/interop/features.toml` names what shows each feature, and `interop-results.json` beside this page is one run of
the matrix. After a change of the first, `scripts/docs/write` writes the page. A new run, and its page:

```
scripts/test --only interop
scripts/docs/write --results .pytest_cache/interop-matrix.json
```
"""


class PageError(ValueError):
    """The page cannot be made; the text says why."""


@dataclass(frozen=True)
class Claim:
    """What is said of one feature of one client."""

    mark: str
    how: str = ""
    shown: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows of the matrix among what shows it."""
        return tuple(one for one in self.shown if not is_test(one))

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests among what shows it, as path::name."""
        return tuple(one for one in self.shown if is_test(one))


@dataclass(frozen=True)
class Feature:
    """One of the rows, with a claim for each client."""

    name: str
    claims: dict[str, Claim]


@dataclass(frozen=True)
class Cell:
    """What is kept of a cell of a run."""

    passed: bool
    messages: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """One whole run: its day and its cells by row and column."""

    date: str
    cells: dict[tuple[str, str], Cell]


def is_test(shown: str) -> bool:
    """Whether this names a test and not a row."""
    return "::" in shown


# --- what goes in -----------------------------------------------------------------------------------------------------


def load_features(path: Path = DATA) -> list[Feature]:
    """What shows each feature.

    Raises:
        PageError: a mark is none of those there are, or stands without anything that shows it.
    """
    found = tomllib.loads(path.read_text("utf-8"))["feature"]
    return [
        Feature(one["name"], {client: _claim(one["name"], client, one[client]) for client in CLIENTS}) for one in found
    ]


def _claim(feature: str, client: str, told: dict[str, Any]) -> Claim:
    claim = Claim(told["mark"], told.get("how", ""), tuple(told.get("shown", ())))
    where = f"{feature}, {CLIENTS[client]}"
    if claim.mark not in MARKS:
        raise PageError(f"{where}: the mark {claim.mark!r} is none of {', '.join(MARKS)}")
    if bool(claim.shown) != (claim.mark in SHOWN):
        raise PageError(
            f"{where}: {claim.mark!r} with {len(claim.shown)} tests and rows; name what shows it, or nothing"
        )
    unknown = [row for row in claim.rows if row not in ROWS]
    if unknown:
        raise PageError(f"{where}: the matrix has no row {unknown[0]!r}")
    return claim


def load_results(path: Path = RESULTS) -> Results:
    """The run that is kept beside the page."""
    told = json.loads(path.read_text("utf-8"))
    cells = {
        (one["row"], one["column"]): Cell(one["passed"], one.get("messages", 0), one.get("times", {}))
        for one in told["cells"]
    }
    return Results(told["date"], cells)


def results_of(run: list[dict[str, Any]], *, date: str, before: Results | None = None) -> Results:
    """What is kept of a run, from what `--interop-matrix` wrote; of cells that it left out, what there was `before`.

    Raises:
        PageError: cells are missing, or times of one row, which are compared, would come of two runs.
    """
    cells = dict(before.cells) if before else {}
    ran = {(one["row"], one["column"]) for one in run}
    for row in TIMES:
        if len({(row, column) for column in columns_of(row)} & ran) not in (0, len(columns_of(row))):
            raise PageError(f"the times of {row!r} are compared with each other; run it in all its columns")
    for one in run:
        row, column, numbers = one["row"], one["column"], one["numbers"]
        times = {key: _rounded(numbers[key]) for key in TIMES.get(row, ()) if key in numbers}
        cells[row, column] = Cell(one["passed"], numbers.get("messages", 0), times)
    missing = [f"{row} | {column}" for row, column in every_cell() if (row, column) not in cells]
    if missing:
        raise PageError(
            f"{len(missing)} cells were not run, such as {missing[0]}; run all with scripts/test --only interop"
        )
    return Results(date, {cell: cells[cell] for cell in every_cell()})


def every_cell() -> Iterator[tuple[str, str]]:
    """Row and column of each cell of a whole run, in order."""
    return ((row, column) for row in ROWS for column in columns_of(row))


def _rounded(number: float | list[float]) -> list[float]:
    return [round(one, 1 if one >= 1 else 2) for one in (number if isinstance(number, list) else [number])]


def dump_results(results: Results) -> str:
    """The text of the file beside the page: one line for each cell."""
    lines = []
    for (row, column), cell in results.cells.items():
        told: dict[str, Any] = {"row": row, "column": column, "passed": cell.passed, "messages": cell.messages}
        if cell.times:
            told["times"] = cell.times
        lines.append("  " + json.dumps(told, ensure_ascii=False))
    return f'{{\n "date": "{results.date}",\n "cells": [\n' + ",\n".join(lines) + "\n ]\n}\n"


# --- what comes out ---------------------------------------------------------------------------------------------------


def page(features: list[Feature], results: Results) -> str:
    """The whole page."""
    parts = [HEAD.format(unknown=MARKS["not shown"], **_versions()), *_overview(features, results)]
    for client in CLIENTS:
        parts += _details(client, features, results)
    parts += [*_matrix(results), *_times(results), REFRESH]
    return "\n".join(parts)


def _versions() -> dict[str, str]:
    """Of the official client and servers, as they are fetched."""
    pom = POM.read_text("utf-8")
    return {name: pom.partition(f"<tubemq.{name}.version>")[2].partition("<")[0] for name in ("client", "server")}


def mark(claim: Claim, results: Results) -> str:
    """What stands in the table: a claim whose rows did not pass has failed."""
    return FAILED if failed(claim, results) else MARKS[claim.mark]


def failed(claim: Claim, results: Results) -> list[str]:
    """The cells that this claim needs and that did not pass."""
    return [
        f"{row} ({column})"
        for row in claim.rows
        for column in columns_of(row)
        if not results.cells.get((row, column), Cell(False)).passed
    ]


def _overview(features: list[Feature], results: Results) -> Iterator[str]:
    yield from _table(
        ("feature", *CLIENTS.values()),
        ((one.name, *(mark(one.claims[client], results) for client in CLIENTS)) for one in features),
    )


def _details(client: str, features: list[Feature], results: Results) -> Iterator[str]:
    yield f"## {CLIENTS[client]}\n"
    rows = []
    for one in features:
        claim = one.claims[client]
        if not (claim.how or claim.shown):
            continue
        shown = [*claim.rows, *(f"`{test}`" for test in claim.tests)]
        bad = [f"**failed: {cell}**" for cell in failed(claim, results)]
        rows.append((one.name, mark(claim, results), claim.how, "<br>".join(shown + bad)))
    yield from _table(("feature", CLIENTS[client], "how", "shown by"), rows)


def _matrix(results: Results) -> Iterator[str]:
    compared = [row for row in ROWS if row.startswith(("Java ", "pytubemq ", "One group "))]
    yield MATRIX.format(count=len(compared), date=results.date)
    yield from _table(
        ("client ↓ servers →", *COLUMNS),
        ((row, *(_cell(results.cells.get((row, column))) for column in COLUMNS)) for row in ROWS),
    )


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return f"✔ {cell.messages:,}" if cell.passed else FAILED


def _times(results: Results) -> Iterator[str]:
    yield TIMES_HEAD
    rows = []
    for row, numbers in TIMES.items():
        for key, what in numbers.items():
            told = [results.cells.get((row, column), Cell(False)).times.get(key, []) for column in COLUMNS]
            rows.append((what, *(", ".join(map(str, times)) or MARKS["not shown"] for times in told)))
    yield from _table(("time", *COLUMNS), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield _line(head)
    yield "|" + "---|" * len(head)
    yield from map(_line, rows)
    yield ""


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
