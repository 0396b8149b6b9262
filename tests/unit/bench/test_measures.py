"""The measures as `bench/compare` finds them."""

from __future__ import annotations

import asyncio
import importlib
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.clients import window
from bench.harness import main as program
from bench.harness.bench import Bench, Options, Reading
from bench.harness.processes import RunError
from bench.measures import NAMES, common

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.harness.decisions import Row


FILES = Path(common.__file__).parent


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_measure_that_can_be_run(name: str) -> None:
    measure = program.load(name)
    assert measure.name == name
    assert measure.title
    assert 0 < measure.limit_s < 3_600
    assert asyncio.iscoroutinefunction(measure.run)


def test_every_file_of_a_measure_is_named() -> None:
    found = {path.stem for path in FILES.glob("*.py")} - {"__init__", "common"}
    assert found == {name.replace("-", "_") for name in NAMES}
    for stem in found:
        assert importlib.import_module(f"bench.measures.{stem}").MEASURE


class Broken:
    """A measure that ends as it is told to."""

    name = "broken"
    title = "broken"
    limit_s = 0.2

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    async def run(self, bench: Bench) -> None:
        if self.error is None:
            await asyncio.Event().wait()
        else:
            raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [(RunError("java is missing"), "java is missing"), (OSError("no space"), "no space"), (None, "longer than 0.2 s")],
)
def test_a_measure_that_fails_or_hangs_is_a_row_that_says_so(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, said: str
) -> None:
    monkeypatch.setattr(program, "load", lambda name: Broken(error))
    shown: list[Row] = []
    rows = asyncio.run(program.compare(["broken"], Options(runs=1), shown.append, find=program.load))
    assert rows == shown
    assert [row.met for row in rows] == [False]
    assert said in rows[0].note


def test_sides_are_taken_in_turn_and_every_reading_is_kept(tmp_path: Path) -> None:
    async def run() -> tuple[list[str], dict[str, Reading], Path]:
        async with Bench(Options(runs=3, data=tmp_path), lambda text: None) as bench:
            taken: list[str] = []

            def side(name: str) -> Callable[[], Awaitable[dict[str, float]]]:
                async def take() -> dict[str, float]:
                    taken.append(name)
                    return {"msgs_per_s": float(len(taken))}

                return take

            found = await bench.take({"x": side("x"), "y": side("y")})
            return taken, found, bench.home

    taken, found, home = asyncio.run(run())
    assert taken == ["x", "y", "y", "x", "x", "y"]
    assert found["x"].of("msgs_per_s") == [1.0, 4.0, 5.0]
    assert common.rate(found["y"]) == 3.0
    assert not home.exists()


def test_notes_tell_failed_sends_and_leave_out_what_says_nothing() -> None:
    fine, bad = Reading(({"failed": 0},)), Reading(({"failed": 2}, {"failed": 1}))
    assert common.failures({"ours": fine}) == ""
    assert common.failures({"ours": fine, "java": bad}) == "java: 3 sends failed"
    assert common.notes("", "a", "") == "a"


def test_a_window_counts_what_was_done_between_its_ends() -> None:
    one = window.Window({"nobody": 2**22})
    one.open(100)
    found = one.close(350)
    assert found["messages"] == 250
    assert math.isfinite(found["msgs_per_s"])
    assert found["cores"]["nobody"] == 0.0


def test_percentiles_are_in_milliseconds() -> None:
    found = window.percentiles([number / 1000 for number in range(1, 101)])
    assert (found["p50"], found["p99"], found["max"]) == (51.0, 100.0, 100.0)
    assert window.percentiles([]) == {}


def test_the_note_on_processor_time_tells_cores_and_time_per_message() -> None:
    found = {
        "ours": Reading(({"msgs_per_s": 50_000.0, "cores": {"client": 0.5, "broker": 0.25, "others": 0.05}},)),
        "dead": Reading(({"msgs_per_s": 0.0, "cores": {"client": 0.1, "others": 1.5}},)),
    }
    lines = common.cores(found).splitlines()[1:]
    assert lines == ["  ours: client 0.50 (10), broker 0.25 (5)", "  dead: client 0.10; other processes 1.50"]
