"""Forgetting progress, a range again, and stages to look at: the decisions, without Spark or a cluster."""

from __future__ import annotations

import base64
import math
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from pytubemq.decode.columns import parse_columns
from pytubemq.errors import ConfigError, RefusedError
from pytubemq.pipelines.file.model import (
    DeadLetter,
    Decode,
    OnError,
    Pipeline,
    Sink,
    Source,
    Step,
    TriggerKind,
)
from pytubemq.pipelines.operate.backfill import backfill_effects, backfill_of
from pytubemq.pipelines.operate.redrive import Redrive
from pytubemq.pipelines.operate.reset import forget_progress, read_progress
from pytubemq.pipelines.operate.tap import check_stage, stages
from pytubemq.pipelines.report.json_rows import plain
from pytubemq.pipelines.state.files import state_files
from pytubemq.spark.source.schema import ALL_COLUMNS, COLUMNS
from tests.unit.pipelines.operate.state import NOW_S, write_state

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = Pipeline(
    "orders",
    Source(topics=("t",), commit_group="g"),
    steps=(Step("paid", sql="SELECT 1"),),
    sinks=(
        Sink("lake", "parquet", path="/lake"),
        Sink("db", "jdbc", url="jdbc:derby:memory:x", table="t", keys=("id",)),
        Sink("out", "tubemq"),
    ),
    state="/state",
)


def test_progress_is_put_aside_and_all_else_stays(tmp_path: Path) -> None:
    place = write_state(tmp_path / "state", status="finished", started=NOW_S + 3_600)  # the last run had no batch
    for name in ("checkpoint", "checkpoint-step-day", "dead_letter", "backfill"):
        (place / name).mkdir()
    files = state_files(str(place))
    found = read_progress(files)
    assert (found.batches, found.rows_in, found.offsets) == (3, 3_000, {"1:t:0": 56})
    aside = forget_progress(files)
    assert {path.name for path in aside.iterdir()} == set(found.names)
    assert {path.name for path in place.iterdir()} == {"run.json", "forgotten", "dead_letter", "backfill"}
    (place / "checkpoint").mkdir()
    forget_progress(files)
    assert {path.name for path in aside.iterdir()} == {"checkpoint"}


def test_the_progress_of_a_run_at_work_is_not_forgotten(tmp_path: Path) -> None:
    place = write_state(tmp_path / "state")
    (place / "checkpoint").mkdir()
    with pytest.raises(RefusedError, match="runs"):
        forget_progress(state_files(str(place)))
    assert (place / "checkpoint").is_dir()


def test_a_backfill_has_a_state_of_its_own_that_follows_from_its_range() -> None:
    first = backfill_of(PIPELINE, "2026-01-01T00:00:00Z", "latest")
    assert first.id == backfill_of(PIPELINE, "2026-01-01T00:00:00Z", "latest").id
    assert first.id != backfill_of(PIPELINE, "earliest", "latest").id
    assert first.pipeline.state == f"/state/backfill/{first.id}"
    assert (first.pipeline.source.commit_group, first.pipeline.trigger.kind) == (None, TriggerKind.AVAILABLE_NOW)
    assert backfill_of(PIPELINE, "earliest", "latest", id="january").pipeline.state == "/state/backfill/january"


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("10m", "latest", "--from: '10m' is not a position in a topic"),
        ("earliest", "tomorow", "--to: 'tomorow' is not a position in a topic"),
        ("latest", "earliest", "--to earliest is before --from latest"),
        ("-1m", "-10m", "--to -10m is before --from -1m"),
        ("2026-01-02", "2026-01-01T23:00:00Z", "is before --from 2026-01-02"),
        ("latest", "2026-01-01", "is before --from latest"),
    ],
)
def test_a_range_that_is_none_is_refused_in_the_words_of_the_command(start: str, end: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        backfill_of(PIPELINE, start, end)


@pytest.mark.parametrize(("start", "end"), [("group:g", "earliest"), ("-1m", "9999-01-01"), ("latest", "latest")])
def test_a_range_of_which_only_the_cluster_knows_is_left_to_it(start: str, end: str) -> None:
    assert backfill_of(PIPELINE, start, end).pipeline.source.end == end


def test_a_backfill_that_is_started_again_keeps_the_range_that_it_was_begun_with(tmp_path: Path) -> None:
    pipeline = replace(PIPELINE, state=str(tmp_path / "state"))
    first = backfill_of(pipeline, "-10m", "latest", id="x")
    assert not (tmp_path / "state").exists()  # looking makes nothing
    first.keep()
    for start in ("-10m", first.pipeline.source.start):
        assert start is not None
        again = backfill_of(pipeline, start, "latest", id="x")
        again.keep()
        assert (again.pipeline, again.range) == (first.pipeline, first.range)
    for places in (("-20m", "latest"), ("earliest", "latest"), ("-10m", "-1m")):
        with pytest.raises(ConfigError, match="backfill x was started from"):
            backfill_of(pipeline, *places, id="x")
    assert backfill_of(pipeline, "earliest", "latest", id="y").pipeline.source.start == "earliest"
    by_time = backfill_of(pipeline, {"time": "2026-01-01T00:00:00Z"}, "latest", id="z")
    by_time.keep()
    assert backfill_of(pipeline, {"time": "2026-01-01T00:00:00Z"}, "latest", id="z").pipeline == by_time.pipeline


def test_what_a_backfill_rejects_joins_the_pipeline_s_own_dead_letters() -> None:
    decoding = replace(PIPELINE, decode=Decode("json", "id BIGINT"))
    assert backfill_of(decoding, "earliest", "latest").pipeline.dead_letter == DeadLetter(path="/state/dead_letter")
    assert backfill_of(PIPELINE, "earliest", "latest").pipeline.dead_letter is None
    limits = DeadLetter(max_rows=5)
    found = backfill_of(replace(decoding, dead_letter=limits), "earliest", "latest").pipeline.dead_letter
    assert found == replace(limits, path="/state/dead_letter")
    topic = DeadLetter("tubemq", topic="bad")
    found = backfill_of(replace(decoding, dead_letter=topic), "earliest", "latest").pipeline.dead_letter
    assert found == replace(topic, path="/state/dead_letter"), "where those lie that are too long for a message"


def test_a_redrive_has_every_column_that_a_source_can_have(tmp_path: Path) -> None:
    over = Redrive(tmp_path, 1).pipeline(
        replace(PIPELINE, source=Source(topics=("t",), columns=ALL_COLUMNS)), "message"
    )
    assert over.source.columns == ALL_COLUMNS
    assert column_names(over.source.schema) == list(ALL_COLUMNS)
    assert column_names(Redrive(tmp_path, 1).pipeline(PIPELINE, "message").source.schema) == list(COLUMNS)


def column_names(schema: str | None) -> list[str]:
    return [column.name for column in parse_columns(schema or "")]


def test_a_time_ago_is_the_time_that_it_is_when_it_is_asked_for() -> None:
    source = backfill_of(PIPELINE, "-10m", "-1m").pipeline.source
    begun, ended = (datetime.fromisoformat(str(place)) for place in (source.start, source.end))
    assert (ended - begun).total_seconds() == pytest.approx(540, abs=1)


@pytest.mark.parametrize("id", ["", "../up", ".hidden", "a b", "x" * 65])
def test_an_id_that_is_no_name_is_refused(id: str) -> None:
    with pytest.raises(ConfigError, match="is not an id"):
        backfill_of(PIPELINE, "earliest", "latest", id=id)


def test_spark_s_own_file_sink_gets_no_backfill() -> None:
    log = Sink("log", "parquet", path="/log", layout="log")
    pipeline = replace(PIPELINE, sinks=(*PIPELINE.sinks, log))
    with pytest.raises(ConfigError, match=r"sinks\.log\.layout: log cannot take rows of a backfill"):
        backfill_of(pipeline, "earliest", "latest")


WINDOWED = replace(
    PIPELINE,
    steps=(*PIPELINE.steps, Step("by_day", sql="SELECT day, count(*) AS n FROM paid GROUP BY day")),
    sinks=(
        Sink("lake", "parquet", input="paid", path="/lake"),
        Sink("days", "jdbc", input="by_day", url="jdbc:derby:memory:x", table="days"),
    ),
)


def test_rows_that_would_stay_in_a_state_get_no_backfill_and_the_other_sinks_get_theirs_by_a_copy() -> None:
    with pytest.raises(ConfigError, match=r"steps\.by_day: keeps state, which a backfill") as refused:
        backfill_of(WINDOWED, "earliest", "latest")
    assert "a copy of the file without days, with the same name and state, for lake" in refused.value.message
    copy = replace(WINDOWED, sinks=WINDOWED.sinks[:1])
    assert backfill_of(copy, "earliest", "latest").pipeline.sinks == copy.sinks


def test_a_reset_tells_which_sinks_need_a_new_path(tmp_path: Path) -> None:
    place = write_state(tmp_path / "state", status="finished")
    for name in ("checkpoint", "checkpoint-log-lake"):
        (place / name).mkdir()
    assert read_progress(state_files(str(place))).logs == ["lake"]


def test_only_topics_have_ranges() -> None:
    with pytest.raises(ConfigError, match="parquet"):
        backfill_of(replace(PIPELINE, source=Source(format="parquet")), "earliest", "latest")


def test_what_becomes_of_each_sink_is_told_before() -> None:
    said = backfill_effects(PIPELINE)
    assert [line.partition(":")[0] for line in said] == ["lake", "db", "out"]
    assert re.search("duplicates", said[0])
    assert re.search("replaced", said[1])
    assert re.search("sent again", said[2])
    decoded = replace(PIPELINE, decode=Decode("json", schema="id INT"))
    assert backfill_effects(decoded)[3:] == [
        f"dead_letter, for records that are rejected again: {said[0].partition(': ')[2]}"
    ]
    assert backfill_effects(replace(decoded, decode=Decode("json", schema="id INT", on_error=OnError.DROP))) == said


def test_a_stage_that_is_not_there_is_told_with_the_nearest_one() -> None:
    assert stages(PIPELINE) == ("source", "input", "paid", "lake", "db", "out", "rejected")
    with pytest.raises(ConfigError) as caught:
        check_stage(PIPELINE, "payd")
    assert caught.value.hint == "did you mean paid?"


def test_values_of_rows_come_out_as_json_has_them() -> None:
    assert plain({"a": [datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 2), Decimal("1.50")]}) == {
        "a": ["2026-01-01T00:00:00Z", "2026-01-02", "1.50"]
    }
    assert plain(b"text") == "text"
    assert base64.b64decode(plain(b"\xff\x00")["base64"]) == b"\xff\x00"
    assert plain([("k", 1)]) == {"k": 1}
    assert plain(math.inf) == "inf"
