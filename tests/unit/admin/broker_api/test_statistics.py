"""The original's statistics over our counters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytubemq.admin.broker_api.statistics import Part, Statistics
from pytubemq.admin.webapi.envelope import date
from pytubemq.admin.webapi.methods.web_statistics import NO_LEAST, NO_MOST, Since
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.observe.histogram import Histogram
from pytubemq.storage.log.partition_reads import Extent


def test_nothing_is_shown_as_the_original_shows_it() -> None:
    empty = {"count": 0, "min": NO_LEAST, "max": NO_MOST, "cells": {}, "P99": 0, "P999": 0, "P9999": 0}
    assert Since(Histogram()).row() == empty
    assert (NO_LEAST, NO_MOST) == (9223372036854775807, -9223372036854775808)


def test_times_are_whole_milliseconds_in_cells_of_powers_of_two() -> None:
    histogram = Histogram()
    for taken_ms in (0.1, 1.5, 2.5, 3.9, 17, 131_071, 131_073, 1_000_000):
        histogram.add(taken_ms / 1000)
    row = Since(histogram).row()
    assert row["cells"] == {
        "cell_0t2": 2, "cell_2t4": 2, "cell_16t32": 1, "cell_65536t131072": 1, "cell_131072tMax": 2,
    }  # fmt: skip
    assert (row["count"], row["min"], row["max"]) == (8, 0, 1_000_000)
    assert row["P99"] == row["P9999"] == 1_000_000


@pytest.mark.parametrize(("slow", "p99", "p999"), [(0, 1, 1), (1, 2, 2), (2, 2, 20), (10, 2, 20), (11, 20, 20)])
def test_a_percentile_is_a_bound_that_so_many_were_below(slow: int, p99: int, p999: int) -> None:
    histogram = Histogram()
    for number in range(1000):
        histogram.add(0.020 if number < slow else 0.001)
    row = Since(histogram).row()
    assert (row["P99"], row["P999"]) == (p99, p999)


def test_a_snapshot_counts_anew_and_leaves_the_histogram_alone() -> None:
    histogram = Histogram()
    since = Since(histogram)
    histogram.add(0.005)
    since.snapshot()
    histogram.add(0.001)
    row = since.row()
    assert (row["count"], row["min"], row["max"], row["cells"]) == (1, 1, 1, {"cell_0t2": 1})
    assert histogram.count == 2


def row(statistics: Statistics, facts: Any) -> dict[str, Any]:
    parts: Any = [
        SimpleNamespace(
            topic=topic, partition_id=number, max_offset=extent.max_offset, max_position=extent.max_position
        )
        for (topic, number), extent in facts.extents.items()
    ]
    return statistics.stores(parts, refresh=False)["demo"][0]["msgStore"][1]  # type: ignore[no-any-return]


def facts_of(messages: int) -> Any:
    extent = Extent(0, messages * OFFSET_UNIT, 0, messages * 100)
    return SimpleNamespace(extents={("demo", 0): extent}, look=lambda: None)


def test_stores_that_are_closed_stand_still_and_begin_anew_when_they_are_opened() -> None:
    now = 1_000_000
    statistics = Statistics(wall_ms=lambda: now)
    now += 60_000
    first = row(statistics, facts_of(1000))
    assert (first["file_total_msg_cnt"], first["reset_time"]) == (0, date(now)), "counted from the first look on"
    statistics.close(Part.STORES, facts_of(1010))
    for count in (1010, 1060):
        closed = row(statistics, facts_of(count))
        assert (closed["file_total_msg_cnt"], closed["file_total_data_size"], closed["isClosed"]) == (10, 1000, True)
    now += 60_000
    statistics.open(Part.STORES, facts_of(1060))
    opened = row(statistics, facts_of(1063))
    assert (opened["file_total_msg_cnt"], opened["isClosed"], opened["reset_time"]) == (3, False, date(now))
