"""Where a pipeline begins: what its file says, as options of the source."""

from __future__ import annotations

from pytubemq.pipelines.file.model import Pipeline, Source
from pytubemq.pipelines.frames.source import source_options


def test_a_time_that_nothing_is_as_new_as_means_the_end_unless_it_is_still_to_come_or_the_file_says_otherwise() -> None:
    name = "startingTimestampStrategy"
    for start in ("-10m", "2026-01-31", "1700000000000", {"a": "-1h", "b": "earliest", "1:c:0": 28}):
        assert source_options(Pipeline("p", Source(start=start)))[name] == "latest"
    places: list[str | dict[str, object]] = [
        "earliest",
        "group:g",
        "9999-01-01",
        {"a": "latest", "1:c:0": 28},
        {"a": "-1h", "b": "9999-01-01"},
    ]
    for start in places:
        assert name not in source_options(Pipeline("p", Source(start=start)))
    said = {name.upper(): "earliest"}
    assert source_options(Pipeline("p", Source(start="-10m", options=said)))[name.upper()] == "earliest"
    # a backfill and a look at the newest messages put places of their own in the time's place
    assert set(source_options(Pipeline("p", Source(start="earliest", options=said)))) == {"startingOffsets"}
