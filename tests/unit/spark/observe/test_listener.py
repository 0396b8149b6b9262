"""How far behind a query is, from what Spark tells of its batches."""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Partition
from pytubemq.spark.listener import LagListener
from pytubemq.spark.observe.lag import LOOKS_KEPT, LagMemory, offsets
from pytubemq.spark.observe.metrics import LAG_METRICS, MOST_QUERIES

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 1_770_000_000


def progress(
    at_s: float, read: dict[str, int], latest: dict[str, int], *, rows: int = 10, **more: Any
) -> dict[str, Any]:
    found = {
        "id": "q-1",
        "runId": "r-1",
        "name": "orders",
        "timestamp": datetime.fromtimestamp(DAY_S + at_s, UTC).isoformat().replace("+00:00", "Z"),
        "batchId": 3,
        "durationMs": {"addBatch": 80, "walCommit": 20, "triggerExecution": 125},
        "sources": [
            {
                "endOffset": json.dumps(read),
                "latestOffset": json.dumps(latest),
                "numInputRows": rows,
            }
        ],
    }
    return found | more


def test_rows_behind_are_messages_between_the_batches_end_and_the_newest() -> None:
    lag = LagMemory().take(progress(0, {"1:t:0": 28, "1:t:1": 280}, {"1:t:0": 280, "1:t:1": 280}))
    assert [(str(entry.partition), entry.rows) for entry in lag.partitions] == [("1:t:0", 9), ("1:t:1", 0)]
    assert (lag.rows, lag.spread) == (9, (9, 4.5, 0))
    assert (lag.duration_s, lag.parts_s) == (0.125, {"addBatch": 0.08, "walCommit": 0.02})


def test_a_partition_that_the_batch_does_not_know_yet_is_wholly_behind() -> None:
    assert LagMemory().take(progress(0, {}, {"1:t:0": 280})).rows == 10


def test_seconds_count_from_the_last_look_at_which_all_was_read() -> None:
    memory = LagMemory()
    assert memory.take(progress(0, {"1:t:0": 280}, {"1:t:0": 280})).seconds == 0.0
    memory.take(progress(5, {"1:t:0": 280}, {"1:t:0": 560}))
    lag = memory.take(progress(9, {"1:t:0": 280}, {"1:t:0": 840}))
    assert (lag.seconds, lag.partitions[0].at_least) == (9.0, False)
    assert memory.take(progress(12, {"1:t:0": 560}, {"1:t:0": 840})).seconds == 7.0


def test_a_backlog_older_than_the_first_look_is_told_as_the_least_it_can_be() -> None:
    memory = LagMemory()
    assert memory.take(progress(0, {"1:t:0": 0}, {"1:t:0": 280})).seconds is None
    lag = memory.take(progress(4, {"1:t:0": 28}, {"1:t:0": 280}))
    assert (lag.seconds, lag.partitions[0].at_least) == (4.0, True)


def test_the_times_that_a_query_tells_come_before_what_was_seen() -> None:
    observed = {"tubemq_times": {"newest": float(DAY_S - 30)}}
    lag = LagMemory().take(progress(0, {"1:t:0": 28}, {"1:t:0": 280}, observedMetrics=observed))
    assert lag.seconds == 30.0


def test_a_topic_made_anew_is_looked_at_anew() -> None:
    memory = LagMemory()
    memory.take(progress(0, {"1:t:0": 280}, {"1:t:0": 280}))
    assert memory.take(progress(60, {"1:t:0": 0}, {"1:t:0": 28})).seconds is None


def test_offsets_of_other_sources_come_to_nothing() -> None:
    assert offsets("null") == offsets("{broken") == offsets('{"topic": {"0": 5}}') == offsets(None) == {}
    assert offsets({"1:t:0": {"offset": 28, "cut": "x"}, "1:t:1": True}) == {Partition(1, "t", 0): 28}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=600))
def test_what_is_kept_is_bounded_and_seconds_never_run_ahead(steps: list[tuple[int, int]]) -> None:
    memory = LagMemory()
    at_s, end, history = 0, 0, [(0, 0)]
    memory.take(progress(0, {"1:t:0": 0}, {"1:t:0": 0}))
    for forward, messages in steps:
        at_s, end = at_s + forward, end + messages * 28
        history.append((at_s, end))
        lag = memory.take(progress(at_s, {"1:t:0": 28}, {"1:t:0": end}))
        if end <= 28:
            assert lag.seconds == 0.0
        else:
            assert lag.seconds is not None
            assert not lag.partitions[0].at_least
            # never less than the true age of what is unread, as far as the looks can tell
            assert lag.seconds >= at_s - min(time_s for time_s, there in history if there > 28)
    assert all(len(seen.ends) <= LOOKS_KEPT for seen in memory._seen.values())


def test_prometheus_reads_the_page_and_it_has_all_figures() -> None:
    listener = LagListener(prometheus_port=0)
    try:
        listener.take(progress(0, {"1:t:0": 280}, {"1:t:0": 280}))
        listener.take(progress(2, {"1:t:0": 280}, {"1:t:0": 560}))
        with urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
    finally:
        listener.close()
    samples = {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert set(samples) == {f"pytubemq_{metric.name}" for metric in LAG_METRICS}
    assert samples["pytubemq_spark_lag_rows"] == ({"query": "orders", "topic": "t", "partition": "1:0"}, 10.0)
    assert samples["pytubemq_spark_lag_seconds"] == ({"query": "orders"}, 2.0)
    assert samples["pytubemq_spark_input_rows_total"] == ({"query": "orders"}, 20.0)


def test_a_port_that_is_taken_is_named() -> None:
    first = LagListener(prometheus_port=0)
    try:
        with pytest.raises(ConfigError, match=str(first.port)):
            LagListener(prometheus_port=first.port)
    finally:
        first.close()


def test_the_end_of_a_query_and_its_error_are_figures() -> None:
    registry = CollectorRegistry()
    listener = LagListener(registry=registry, per_partition=False)
    listener.take(progress(0, {"1:t:0": 28}, {"1:t:0": 280}))
    listener.onQueryTerminated(SimpleNamespace(id="q-1", exception="it broke"))  # type: ignore[arg-type]
    labels = {"query": "orders"}
    assert registry.get_sample_value("pytubemq_spark_query_active", labels) == 0
    assert registry.get_sample_value("pytubemq_spark_query_failures_total", labels) == 1
    assert registry.get_sample_value("pytubemq_spark_lag_rows_sum", labels) == 9
    listener.take(progress(9, {"1:t:0": 280}, {"1:t:0": 280}, id="q-1"))
    assert registry.get_sample_value("pytubemq_spark_query_active", labels) == 1
    assert registry.get_sample_value("pytubemq_spark_input_rows_total", labels) == 20
    listener.close()
    assert list(registry.collect()) == []


def test_each_batch_is_one_line_of_json(tmp_path: Path) -> None:
    file = tmp_path / "new" / "lag.jsonl"
    told: list[int] = []
    listener = LagListener(json_lines=file, on_lag=lambda lag: told.append(lag.rows))
    listener.take(progress(0, {"1:t:0": 28}, {"1:t:0": 280}))
    listener.take(progress(1, {"1:t:0": 280}, {"1:t:0": 280}))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["rows_behind"] for line in lines] == told == [9, 0]
    assert lines[1]["time"] == "2026-02-02T02:40:01.000Z"
    assert lines[0]["partitions"][0]["latest_offset"] == 280


def test_a_progress_that_is_not_understood_does_not_reach_the_query(caplog: pytest.LogCaptureFixture) -> None:
    listener = LagListener()
    listener.onQueryProgress(SimpleNamespace(progress={"id": 1, "sources": 5}))  # type: ignore[arg-type]
    assert listener.lags() == {}
    assert "not understood" in caplog.text


def test_queries_without_end_do_not_fill_the_memory() -> None:
    listener = LagListener()
    for number in range(MOST_QUERIES + 5):
        listener.take(progress(0, {}, {}, id=str(number), name=f"n{number}"))
    assert len(listener.lags()) == MOST_QUERIES
    assert "n0" not in listener.lags()
