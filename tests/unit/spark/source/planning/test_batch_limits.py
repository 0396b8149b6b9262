"""When a batch begins, and how large a task may be."""

from __future__ import annotations

from pytubemq.spark.source.planning.batch_limits import FIRST_TASK_ROWS, TaskRowLimit, TriggerDelay


def test_few_rows_wait_for_more_but_not_for_ever() -> None:
    patience = TriggerDelay(100, 30.0, now_s=0.0)
    assert patience.should_wait(99, 29.9)
    assert not patience.should_wait(100, 1.0)
    assert patience.should_wait(1, 30.9)  # counted anew from the batch at 1.0
    assert not patience.should_wait(1, 31.0)
    assert patience.should_wait(1, 31.1)


def test_no_rows_do_not_count_as_a_batch() -> None:
    patience = TriggerDelay(100, 30.0, now_s=0.0)
    assert not patience.should_wait(0, 40.0)
    assert not patience.should_wait(1, 41.0)


def test_tasks_grow_towards_the_time_and_shrink_when_they_exceed_it() -> None:
    pace = TaskRowLimit(10.0)
    pace.begin(0.0, FIRST_TASK_ROWS)
    pace.end(1.0)
    assert pace.most_rows == FIRST_TASK_ROWS * 4
    pace.begin(1.0, pace.most_rows)
    pace.end(6.0)
    assert pace.most_rows == FIRST_TASK_ROWS * 8
    pace.begin(6.0, pace.most_rows)
    pace.end(26.0)
    assert pace.most_rows == FIRST_TASK_ROWS * 4


def test_a_batch_that_was_small_by_itself_tells_nothing_about_larger_ones() -> None:
    pace = TaskRowLimit(10.0)
    pace.begin(0.0, 10)
    pace.end(0.1)
    assert pace.most_rows == FIRST_TASK_ROWS
    pace.end(5.0)
    assert pace.most_rows == FIRST_TASK_ROWS


def test_a_slow_batch_never_brings_it_below_the_first() -> None:
    pace = TaskRowLimit(0.001)
    pace.begin(0.0, 10)
    pace.end(100.0)
    assert pace.most_rows == FIRST_TASK_ROWS
