"""What a plan says of a batch's bounds, of rejected records, and of sinks that promise the same."""

from __future__ import annotations

import pytest

from pytubemq.pipelines.file.model import (
    DeadLetter,
    Decode,
    Limit,
    OnError,
    Pipeline,
    Sink,
    Source,
    SparkSettings,
    Trigger,
    TriggerKind,
)
from pytubemq.pipelines.plan.plan_text import plan_lines
from pytubemq.pipelines.plan.planned import build_plan

JSON = Decode("json", "id BIGINT")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (Limit(), None),
        (Limit(rows=200_000, size_bytes=64 << 20), "at most 200,000 rows, 64 MiB"),
        (Limit(size_bytes=1_000_000, fetch_s=1.5), "at most 1,000,000 bytes, 1.5 s of fetching in a task"),
        (Limit(min_rows=1_000, max_delay_s=60), "at least 1,000 rows, or fewer after 60 s"),
    ],
)
def test_the_bounds_of_a_batch_are_said(limit: Limit, said: str | None) -> None:
    pipeline = Pipeline("p", Source(topics=("t",), limit=limit))
    assert build_plan(pipeline).batch == said
    assert (f"batch   {said}" in plan_lines(build_plan(pipeline))) is (said is not None)
    once = Pipeline("p", pipeline.source, trigger=Trigger(TriggerKind.ONCE))
    assert build_plan(once).batch is None  # it is all that is there


@pytest.mark.parametrize(
    ("decode", "letters", "said"),
    [
        (None, None, None),
        (Decode("raw"), None, None),
        (JSON, None, "do not end the run, however many there are"),
        (JSON, DeadLetter(max_ratio=0.01), "more than 1% of a batch end the run"),
        (
            JSON,
            DeadLetter(max_ratio=0.005, max_rows=1_000),
            "more than 0.5% of a batch or 1,000 records in all end the run",
        ),
        (Decode("json", on_error=OnError.FAIL), None, "the first ends the run"),
        (Decode("json", on_error=OnError.DROP), None, "are counted and dropped"),
    ],
)
def test_what_rejected_records_do_to_the_run_is_said(
    decode: Decode | None, letters: DeadLetter | None, said: str | None
) -> None:
    pipeline = Pipeline("p", Source(topics=("t",)), decode, dead_letter=letters)
    assert build_plan(pipeline).rejects == said
    assert (f"rejects {said}" in plan_lines(build_plan(pipeline))) is (said is not None)


def test_what_several_sinks_promise_alike_is_said_once_and_where_spark_runs() -> None:
    lake = Sink("lake", "parquet", path="/lake")
    other = Sink("other", "delta", path="/other")
    settings = SparkSettings(master="spark://h:7077")
    told = plan_lines(build_plan(Pipeline("p", Source(topics=("t",)), JSON, sinks=(lake, other), spark=settings)))
    assert sum("a batch is written to a temporary directory" in line for line in told) == 1
    assert sum(line.startswith("lake, dead_letter: exactly once: ") for line in told) == 1
    assert sum(line.startswith("other: exactly once: ") for line in told) == 1
    assert "spark   spark://h:7077" in told
