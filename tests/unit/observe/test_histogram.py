"""Times in cells whose bounds are powers of two."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.observe.histogram import CELLS, Histogram, bound_s


@given(st.lists(st.floats(0, 2_000)))
def test_every_time_is_in_the_one_cell_whose_bounds_it_lies_between(times: list[float]) -> None:
    histogram = Histogram()
    for taken_s in times:
        before = list(histogram.cells)
        histogram.add(taken_s)
        (cell,) = [n for n in range(CELLS) if histogram.cells[n] != before[n]]
        # but for the last bit of a time that lies on a bound
        assert cell == CELLS - 1 or taken_s <= bound_s(cell)
        assert cell == 0 or taken_s >= bound_s(cell - 1) * (1 - 1e-12)
    assert histogram.count == sum(histogram.cells) == len(times)
    assert (histogram.least_s, histogram.most_s) == (min(times, default=None), max(times, default=None))


def test_cells_of_whole_milliseconds_have_whole_bounds() -> None:
    assert [bound_s(cell) for cell in (7, 10, 11, 12)] == [0.000125, 0.001, 0.002, 0.004]


def test_counts_below_a_bound_add_up() -> None:
    histogram = Histogram()
    for taken_s in (0.0, 0.0001, 0.0011, 0.0011, 5.0):
        histogram.add(taken_s)
    assert histogram.below(7, 11) == [(0.000125, 2), (0.00025, 2), (0.0005, 2), (0.001, 2), (0.002, 4)]


def test_a_clock_that_went_back_counts_as_no_time() -> None:
    histogram = Histogram()
    histogram.add(-1.0)
    assert (histogram.cells[0], histogram.sum_s) == (1, 0.0)


def test_extremes_can_be_looked_for_anew_while_counts_go_on() -> None:
    histogram = Histogram()
    histogram.add(1.0)
    histogram.forget_extremes()
    assert (histogram.least_s, histogram.most_s, histogram.count) == (None, None, 1)
    histogram.add(2.0)
    assert (histogram.least_s, histogram.most_s, histogram.count) == (2.0, 2.0, 2)


def test_several_that_took_as_long_count_as_often() -> None:
    one_by_one, together = Histogram(), Histogram()
    for _ in range(5):
        one_by_one.add(0.5)
    together.add(0.5, 5)
    assert together == one_by_one
