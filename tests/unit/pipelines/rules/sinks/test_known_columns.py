"""Columns that a sink names and no row has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.pipelines import PipelineFileError, load_checked
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.registry import refuse
from pytubemq.pipelines.rules.rule import Compiled, Context, Need

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.source_positions import Places

FILE = """\
name: orders
source: {topic: orders, master: "127.0.0.1:8715"}
sinks:
  - name: first
    format: console
  - name: lake
    format: delta
    path: /lake
    partition_by: [topic, dya]
    keys: [idd]
"""


def compiled(*columns: str) -> Compiled:
    session: Any = None
    schema: Any = SimpleNamespace(names=list(columns))
    return Compiled(session, {"input": schema})


def refused(pipeline: Pipeline, places: Places, *columns: str) -> PipelineFileError:
    context = Context(pipeline, places, Need.FILE | Need.SESSION, compiled=compiled(*columns))
    with pytest.raises(PipelineFileError) as found:
        refuse(context, already=Need.FILE)
    return found.value


def test_a_column_that_no_row_has_is_told_at_its_place_with_the_nearest_one(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE)
    loaded = load_checked(str(file))
    error = refused(loaded.require(), loaded.places, "TOPIC", "day", "at")
    told = [(fault.line, fault.column, fault.message, fault.hint) for fault in error.faults]
    assert told == [
        (9, 27, "no row has the column dya", "did you mean day?"),
        (10, 12, "no row has the column idd", "there are TOPIC, day, at"),
    ]
    assert error.hint == f"also {file}:10:12 sinks.lake.keys[0]: no row has the column idd, there are TOPIC, day, at"
    there = compiled("topic", "Dya", "IDD")
    refuse(Context(loaded.require(), loaded.places, Need.FILE | Need.SESSION, compiled=there), already=Need.FILE)


def test_a_run_tells_the_same_words_once_the_file_is_at_hand(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE)
    loaded = load_checked(str(file))
    pipeline = loaded.require()
    error = refused(pipeline, unplaced(pipeline), "topic", "idd", "day")
    same = "sinks.lake.partition_by[1]: no row has the column dya, did you mean day? [P033]"
    assert str(error) == same
    error.put(loaded.places)
    assert (error.message, error.hint) == (f"{file}:9:27 {same}", None)  # lint finds none of it
