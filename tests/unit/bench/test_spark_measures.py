"""The measures as `bench/spark` finds them, and what they decide."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.clients.bodies import Bodies
from bench.spark_measures import NAMES, common, main
from bench.spark_measures.share import _each_us

FILES = Path(common.__file__).parent


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_measure_that_can_be_run(name: str) -> None:
    measure = main.load(name)
    assert measure.name == name
    assert measure.title
    assert 0 < measure.limit_s < 3_600
    assert asyncio.iscoroutinefunction(measure.run)


def test_every_file_of_a_measure_is_named() -> None:
    found = {path.stem for path in FILES.glob("*.py")} - {"__init__", "common", "main"}
    assert found == {name.replace("-", "_") for name in NAMES}


def test_bodies_have_their_size_and_differ() -> None:
    bodies = Bodies(1000)
    made = [*bodies.take(5000), *bodies.take(5000)]
    assert {len(body) for body in made} == {1000}
    assert len(set(made)) == len(made)


def test_processor_time_of_a_row_is_in_microseconds() -> None:
    runs = ({"cores": {"client": 0.5}, "msgs_per_s": 250_000.0}, {"cores": {"client": 1.0}, "msgs_per_s": 250_000.0})
    assert _each_us(runs, "client") == 3.0
