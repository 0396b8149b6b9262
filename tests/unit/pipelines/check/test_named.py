"""Columns that a sink names and no row has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.pipelines import PipelineFileError, load_checked
from pytubemq.pipelines.check.named import check_named, columns_at_their_place
from pytubemq.pipelines.preflight.columns import NoColumnError, check_columns

if TYPE_CHECKING:
    from pathlib import Path

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


def test_a_column_that_no_row_has_is_told_at_its_place_with_the_nearest_one(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE)
    loaded = load_checked(str(file))
    lake = loaded.require().sinks[1]
    with pytest.raises(PipelineFileError) as found:
        check_named(1, lake, ["TOPIC", "day", "at"], loaded.places)
    told = [(fault.line, fault.column, fault.message, fault.hint) for fault in found.value.faults]
    assert told == [
        (9, 27, "no row has the column dya", "did you mean day?"),
        (10, 12, "no row has the column idd", "there are TOPIC, day, at"),
    ]
    assert (
        found.value.hint == f"also {file}:10:12 sinks.lake.keys[0]: no row has the column idd, there are TOPIC, day, at"
    )
    check_named(1, lake, ["topic", "Dya", "IDD"], loaded.places)
    check_named(0, loaded.require().sinks[0], [], loaded.places)


def test_a_run_tells_the_same_words_once_the_file_is_at_hand(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE)
    loaded = load_checked(str(file))
    pipeline = loaded.require()
    with pytest.raises(NoColumnError) as found:
        check_columns(pipeline.sinks[1], ["topic", "idd", "day"])
    assert str(found.value) == "sink lake: partition_by[1]: no row has the column dya\ndid you mean day?"
    told = columns_at_their_place(found.value, pipeline, loaded.places)
    same = "sinks.lake.partition_by[1]: no row has the column dya, did you mean day? [P033]"
    assert (told.message, told.hint) == (f"{file}:9:27 {same}", None)  # lint finds none of it
