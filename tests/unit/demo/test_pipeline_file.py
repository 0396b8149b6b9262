"""The demo's pipeline file: the one that is shown is the one that runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pytubemq.decode.columns import parse_columns
from pytubemq.demo import spark_job
from pytubemq.demo.data import messages
from pytubemq.demo.spark_job import pipeline_file, run_pipeline
from pytubemq.errors import TubeError
from pytubemq.pipelines import lint, load_checked

EXAMPLE = Path(__file__).parents[3] / "examples/flights/flights.yaml"


def test_the_example_and_the_installed_file_are_the_same() -> None:
    assert pipeline_file().read_bytes() == EXAMPLE.read_bytes()


def test_it_has_no_fault_and_every_column_of_a_flight() -> None:
    assert lint(EXAMPLE) == []
    decode = load_checked(EXAMPLE).require().decode
    assert decode is not None
    assert decode.schema is not None
    body = json.loads(next(messages(1)).body)
    assert [column.name for column in parse_columns(decode.schema)] == list(body)


@pytest.mark.process
def test_what_the_run_says_is_wrong_is_what_the_demo_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_job, "pipeline_file", lambda: tmp_path / "none.yaml")
    with pytest.raises(TubeError, match=r"exit code 78.*none\.yaml"):
        asyncio.run(
            run_pipeline(
                master="127.0.0.1:1", topic="t", directory=tmp_path, rows_per_trigger=1,
                report=tmp_path / "r.html", on_batch=lambda rows: None,
            )
        )  # fmt: skip
