"""A sink keeps the query that feeds it, as long as that has made progress."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.pipelines.file.model import Pipeline, Sink, Source, Step
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Compiled, Context, Need
from pytubemq.pipelines.rules.sinks import same_query
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.fed_queries import NAME, checkpoint_of, fed_before, remember
from pytubemq.pipelines.state.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytubemq.pipelines.file.faults import Fault

PIPELINE = Pipeline("p", Source(), sinks=(Sink("lake", "console"),))
ORDERS = Pipeline(
    "orders",
    Source(topics=("demo",)),
    steps=(
        Step("paid", "SELECT *, date(at) AS day FROM input WHERE amount > 0"),
        Step("per_day", "SELECT day, count(*) AS orders FROM paid GROUP BY day"),
    ),
    sinks=(
        Sink("lake", "parquet", "paid", path="/tables/orders"),
        Sink("board", "jdbc", url="jdbc:postgresql://h/d", table="days", keys=("day",)),
        Sink("out", "kafka", "paid", topic="orders"),
    ),
)


def moved(state: StateDirectory, feeds: Mapping[str, str]) -> list[Fault]:
    session: Any = None
    compiled = Compiled(session, feeds=feeds)
    sees = Need.PROGRESS | Need.SESSION
    return list(same_query.check(Context(PIPELINE, unplaced(PIPELINE), sees, state=state, compiled=compiled)))


def begin(state: StateDirectory, query: str) -> None:
    state.write(f"{checkpoint_of(query)}/offsets/0", {"0:t:0": 28})


@pytest.mark.parametrize(
    ("before", "now"),
    [("main", "step-w"), ("step-w", "main"), ("step-w", "step-w-update"), ("main", "log-lake"), ("step-w", "step-v")],
)
def test_a_sink_that_another_query_fed_is_refused(before: str, now: str, tmp_path: Path) -> None:
    state = StateDirectory(str(tmp_path))
    remember(state, {"lake": before})
    assert moved(state, {"lake": now}) == []  # nothing was read yet
    begin(state, before)
    assert moved(state, {"lake": before, "new": now}) == []
    [told] = moved(state, {"lake": now})
    assert told.text.startswith(f"sinks.lake: the query {before} has written to it and now {now} would")
    assert "give the sink a new name" in (told.hint or "")
    assert fed_before(LocalFiles(tmp_path)) == {"lake": before}


def test_a_sink_that_is_taken_out_of_the_file_for_a_while_is_still_known(tmp_path: Path) -> None:
    state = StateDirectory(str(tmp_path))
    begin(state, "main")
    remember(state, {"lake": "main", "board": "step-w"})
    remember(state, {"board": "step-w"})
    [told] = moved(state, {"lake": "step-w", "board": "step-w"})
    assert told.key == "sinks.lake"


def test_without_a_word_of_it_nothing_is_refused(tmp_path: Path) -> None:
    state = StateDirectory(str(tmp_path))
    begin(state, "main")
    assert moved(state, {"lake": "step-w"}) == []
    (tmp_path / NAME).write_text("[]")
    assert fed_before(state) == {}


PLAIN = replace(ORDERS, steps=ORDERS.steps[:1], sinks=(ORDERS.sinks[0], replace(ORDERS.sinks[2], layout="log")))


@pytest.mark.parametrize(
    ("pipeline", "fed", "refused"),
    [
        (ORDERS, {"lake": "main", "board": "step-per_day-update", "out": "main"}, ""),
        (ORDERS, {"board": "main"}, "sinks.board: the query main has written to it and now step-per_day-update would"),
        (ORDERS, {"out": "step-paid"}, ""),  # beside a window only Spark can tell
        (PLAIN, {"lake": "step-paid"}, "sinks.lake: the query step-paid has written to it and now main would"),
        (PLAIN, {"out": "main"}, "sinks.out: the query main has written to it and now log-out would"),
    ],
)
def test_before_spark_is_asked_the_words_of_the_steps_decide_where_they_leave_no_doubt(
    pipeline: Pipeline, fed: dict[str, str], refused: str, tmp_path: Path
) -> None:
    state = StateDirectory(str(tmp_path))
    remember(state, fed)
    for query in fed.values():
        begin(state, query)
    found = list(same_query.check(Context(pipeline, unplaced(pipeline), Need.FILE | Need.PROGRESS, state=state)))
    assert [fault.text.startswith(refused) for fault in found] == ([True] if refused else [])
