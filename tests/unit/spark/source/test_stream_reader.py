"""The stream reader's decisions: when it asks, what a batch may have, where it ends."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from pytubemq.errors import ConfigError, OffsetMovedError
from pytubemq.model.ids import Partition
from pytubemq.spark.source.options import parse_options
from pytubemq.spark.source.planning.plan import BrokerKind, Ends, OffsetRange
from pytubemq.spark.source.read.task import RangePartition
from pytubemq.spark.source.stream import TubeMqStreamReader
from tests.support.waiting import until_seen

if TYPE_CHECKING:
    from collections.abc import Collection

HERE, THERE = Partition(1, "demo", 0), Partition(1, "demo", 1)


class Sight:
    """What a driver sees; a message more lies in the first partition at each question if `growing`."""

    def __init__(self, ends: dict[Partition, Ends], *, growing: bool = False) -> None:
        self.there = ends
        self.growing = growing
        self.asked = 0

    def ends(self, *, needed: Collection[Partition] = ()) -> dict[Partition, Ends]:
        self.asked += 1
        if self.growing:
            last = self.there[HERE]
            self.there = {**self.there, HERE: Ends(last.min_offset, last.max_offset + 28, last.size_bytes)}
        return self.there

    def at_time(self, partitions: Collection[Partition], time_ms: int) -> dict[Partition, int | None]:
        return {partition: 28 * 4 if self.there[partition].max_offset > 28 * 4 else None for partition in partitions}

    def kind(self, partition: Partition) -> BrokerKind:
        return BrokerKind.OURS

    def known(self) -> None:
        return None


def reader(sight: Sight, **options: str) -> TubeMqStreamReader:
    made = TubeMqStreamReader(parse_options({"master": "127.0.0.1:8715", "topic": "demo"} | options))
    made._survey = sight  # type: ignore[assignment]  # as much of a survey as is asked for here
    if made._ending is not None:
        made._ending._finder = sight  # type: ignore[assignment]
    return made


def planned(stream: TubeMqStreamReader, start: dict[str, int], end: dict[str, int]) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task."""
    tasks = stream.partitions(start, end)
    assert all(isinstance(task, RangePartition) for task in tasks)
    return [task.ranges for task in tasks if isinstance(task, RangePartition)]


def default(stream: TubeMqStreamReader) -> ReadLimit:
    return stream.getDefaultReadLimit()


def test_every_batch_begins_with_a_new_question() -> None:
    sight = Sight({HERE: Ends(0, 0)}, growing=True)
    stream = reader(sight)
    first = stream.latestOffset({str(HERE): 0}, ReadAllAvailable())
    second = stream.latestOffset(first, ReadAllAvailable())
    assert second[str(HERE)] > first[str(HERE)]
    assert sight.asked == 2


def test_the_questions_about_one_batch_share_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.spark.source.stream.FRESH_S", 3600.0)
    sight = Sight({HERE: Ends(0, 0)}, growing=True)
    stream = reader(sight)
    end = stream.latestOffset({str(HERE): 0}, ReadAllAvailable())
    assert stream.reportLatestOffset() == end
    assert sight.asked == 1


def test_latest_is_looked_up_once() -> None:
    stream = reader(Sight({HERE: Ends(0, 28)}, growing=True))
    first = stream.initialOffset()
    stream._asked_s = None
    assert stream.initialOffset() == first == {str(HERE): 56}


def test_the_default_limit_tells_a_query_that_runs_once_from_one_that_goes_on() -> None:
    sight = Sight({HERE: Ends(0, 2800, 28000)})
    assert default(reader(sight)) == ReadAllAvailable()
    assert default(reader(sight, maxRowsPerTrigger="7")) == ReadMaxRows(7)
    stream = reader(sight, maxBytesPerTrigger="1000", minRowsPerTrigger="1000")
    assert stream.latestOffset({str(HERE): 0}, ReadAllAvailable()) == {str(HERE): 2800}
    assert stream.latestOffset({str(HERE): 0}, default(stream)) == {str(HERE): 0}


def test_bytes_are_counted_by_the_average_of_what_is_kept() -> None:
    stream = reader(Sight({HERE: Ends(0, 28 * 100, 100_000), THERE: Ends(0, 28 * 10, 10)}), maxBytesPerTrigger="10 KB")
    end = stream.latestOffset({str(HERE): 0, str(THERE): 0}, default(stream))
    assert end == {str(HERE): 28 * 9, str(THERE): 28 * 10}  # ten bytes are less than the least share


def test_few_rows_are_held_back_until_the_delay_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("pytubemq.spark.source.stream.time.monotonic", lambda: now_s)
    monkeypatch.setattr("pytubemq.spark.source.stream.time.sleep", lambda _: None)
    stream = reader(Sight({HERE: Ends(0, 280)}), minRowsPerTrigger="11", maxTriggerDelay="30s")
    start = {str(HERE): 0}
    assert stream.latestOffset(start, default(stream)) == start
    now_s = 129.0
    assert stream.latestOffset(start, default(stream)) == start
    now_s = 130.0
    assert stream.latestOffset(start, default(stream)) == {str(HERE): 280}


def test_what_is_available_now_waits_for_nothing_and_leaves_what_comes_later() -> None:
    sight = Sight({HERE: Ends(0, 280)})
    stream = reader(sight, minRowsPerTrigger="100", maxTriggerDelay="1h")
    stream.prepareForTriggerAvailableNow()
    end = stream.latestOffset({str(HERE): 0}, default(stream))
    sight.there = {HERE: Ends(0, 2800)}
    stream._asked_s = None
    assert stream.latestOffset(end, default(stream)) == end == {str(HERE): 280}


def test_a_partition_found_later_is_read_from_its_first_message_and_is_no_news_while_it_is_empty() -> None:
    sight = Sight({HERE: Ends(0, 280), THERE: Ends(0, 0)})
    stream = reader(sight)
    start = {str(HERE): 280}
    assert stream.latestOffset(start, default(stream)) == start
    sight.there = {HERE: Ends(0, 280), THERE: Ends(28, 84)}
    end = stream.latestOffset(start, default(stream))
    assert end == {str(HERE): 280, str(THERE): 84}
    assert planned(stream, start, end) == [(OffsetRange(THERE, 28, 84),)]


def test_a_stream_stops_at_its_end() -> None:
    sight = Sight({HERE: Ends(0, 280), THERE: Ends(0, 28)})
    stream = reader(sight, endingOffsets='{"1:demo:0": 56}')
    start = {str(HERE): 0, str(THERE): 0}
    end = stream.latestOffset(start, default(stream))
    assert end == {str(HERE): 56, str(THERE): 28}
    sight.there = {HERE: Ends(0, 2800), THERE: Ends(0, 2800)}
    assert stream.latestOffset(end, default(stream)) == end


def test_a_stream_with_a_time_to_come_stops_where_it_has_come() -> None:
    sight = Sight({HERE: Ends(0, 28 * 2)})
    stream = reader(sight, endingTimestamp="2999-01-01T00:00:00Z")
    assert stream.latestOffset({str(HERE): 0}, default(stream)) == {str(HERE): 28 * 2}
    sight.there = {HERE: Ends(0, 28 * 9)}
    assert stream.latestOffset({str(HERE): 28 * 2}, default(stream)) == {str(HERE): 28 * 4}
    sight.there = {HERE: Ends(0, 28 * 20)}
    assert stream.latestOffset({str(HERE): 28 * 4}, default(stream)) == {str(HERE): 28 * 4}


def test_a_replay_plans_from_the_two_offsets_alone() -> None:
    stream = reader(Sight({HERE: Ends(0, 280), THERE: Ends(0, 280)}), maxRecordsPerTask="4")
    stream.prepareForTriggerAvailableNow()
    tasks = stream.partitions({str(HERE): 0}, {str(HERE): 280})
    assert "token" not in repr(tasks)
    ranges = planned(stream, {str(HERE): 0}, {str(HERE): 280})
    assert ranges == [(OffsetRange(HERE, *pair),) for pair in ((0, 84), (84, 168), (168, 280))]


def test_small_ranges_share_a_task_unless_a_number_of_tasks_is_asked_for() -> None:
    sight = Sight({HERE: Ends(0, 280), THERE: Ends(0, 280)})
    start, end = {str(HERE): 0, str(THERE): 0}, {str(HERE): 280, str(THERE): 280}
    assert planned(reader(sight), start, end) == [(OffsetRange(HERE, 0, 280), OffsetRange(THERE, 0, 280))]
    assert len(reader(sight, minPartitions="2").partitions(start, end)) == 2
    assert [len(ranges) for ranges in planned(reader(sight, maxRecordsPerTask="12"), start, end)] == [1, 1]


def test_a_hole_in_the_plan_is_an_error_or_passed_over() -> None:
    sight = Sight({HERE: Ends(56, 280)})
    with pytest.raises(OffsetMovedError, match="data loss"):
        reader(sight).partitions({str(HERE): 0}, {str(HERE): 280})
    stream = reader(sight, failOnDataLoss="false")
    assert planned(stream, {str(HERE): 0}, {str(HERE): 280}) == [(OffsetRange(HERE, 56, 280),)]


def test_a_checkpoint_of_another_topic_is_refused_with_the_first_question() -> None:
    stream = reader(Sight({HERE: Ends(0, 280)}))
    for ask in (
        lambda start: stream.latestOffset(start, ReadAllAvailable()),
        lambda start: stream.partitions(start, start),
    ):
        with pytest.raises(ConfigError, match="the checkpoint is of topic other"):
            ask({"1:other:0": 0})


@pytest.mark.parametrize("cut", [{}, {"maxRecordsPerTask": "10000"}])
def test_tasks_stay_within_the_time_they_may_fetch(cut: dict[str, str]) -> None:
    stream = reader(Sight({HERE: Ends(0, 28 * 1_000_000)}), maxFetchTimePerTask="30s", **cut)
    end = stream.latestOffset({str(HERE): 0}, default(stream))
    assert end == {str(HERE): 28 * 50_000}
    stream.partitions({str(HERE): 0}, end)
    assert stream.latestOffset(end, default(stream)) == {str(HERE): 28 * 250_000}


def test_a_slow_partition_gets_fewer_rows_once_its_tasks_have_told_what_they_took(
    caplog: pytest.LogCaptureFixture,
) -> None:
    last = 28 * 1_000_000
    stream = reader(
        Sight({HERE: Ends(0, last), THERE: Ends(0, last)}), slowPartitionAdjustment="true", maxRowsPerTrigger="20000"
    )
    start = {str(HERE): 0, str(THERE): 0}
    end = stream.latestOffset(start, default(stream))
    assert end == {str(HERE): 28 * 10_000, str(THERE): 28 * 10_000}
    (task,) = stream.partitions({}, {str(HERE): 28})
    assert isinstance(task, RangePartition)
    assert task.report_to is not None
    task.report_to.send([(str(HERE), 10_000, 0.1), (str(THERE), 10_000, 10.0), ("1:other:0", 1, 1.0)])
    assert stream._reports is not None
    until_seen(lambda: stream._reports is not None and len(stream._reports) == 3)
    assert stream.latestOffset(start, default(stream)) == {str(HERE): 28 * 10_000, str(THERE): 28 * 1_000}
    assert "partition 1:demo:1 is slow" in caplog.text
    stream._reports.close()


def test_a_sigterm_lets_the_drivers_process_end_as_a_program_does() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        reader(Sight({HERE: Ends(0, 0)})).initialOffset()
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        reader(Sight({HERE: Ends(0, 0)})).initialOffset()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN  # somebody else's is left alone
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_log_that_lost_its_end_is_data_loss_or_read_on_from_the_end_it_has() -> None:
    sight = Sight({HERE: Ends(0, 280), THERE: Ends(0, 56)})
    start = {str(HERE): 2800, str(THERE): 28}
    with pytest.raises(OffsetMovedError, match="rows 280 to 2800 are wanted, the Broker has 0 to 280"):
        reader(sight).latestOffset(start, ReadAllAvailable())
    stream = reader(sight, failOnDataLoss="false")
    end = stream.latestOffset(start, ReadAllAvailable())
    assert end == {str(HERE): 280, str(THERE): 56}
    assert [one.partition for ranges in planned(stream, start, end) for one in ranges] == [THERE]
    sight.there = {HERE: Ends(0, 308), THERE: Ends(0, 56)}
    after = stream.latestOffset(end, ReadAllAvailable())
    assert planned(stream, end, after) == [(OffsetRange(HERE, 280, 308),)]
