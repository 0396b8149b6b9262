"""How fast a registration may read under the cluster's rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.broker.members.flow_control import DEFAULT_PRIORITY_ID, FlowControl, Meter
from pytubemq.core.flow import NO_FLOW_RULES, DataLimit, FlowRules
from pytubemq.model.limits import MIB

_DAY = FlowRules((DataLimit(0, 2400, 30, 12, 700),))
_FAR = 1000 * MIB


def _meter(read_to: int | None = 0) -> Meter:
    return Meter(read_to=read_to)


def _pause(
    meter: Meter, rules: FlowRules = _DAY, *, end: int = _FAR, now_s: float = 100.0, hhmm: int = 1200
) -> int | None:
    return meter.pause_ms(rules, end_position=end, now_s=now_s, hhmm=hhmm)


def test_the_first_fetch_is_free_and_the_second_is_measured() -> None:
    meter = _meter(None)
    assert _pause(meter) is None
    assert meter.most_bytes(2 * MIB) == 2 * MIB
    meter.record_read(2 * MIB, read_to=2 * MIB)
    assert _pause(meter) is None, "the window begins with the rule"
    assert meter.most_bytes(2 * MIB) == MIB
    meter.record_read(MIB, read_to=3 * MIB)
    assert _pause(meter) == 700


def test_a_window_has_a_twelfth_and_a_minute_the_whole() -> None:
    meter = _meter()
    read = 0
    for second in range(0, 60, 5):
        assert _pause(meter, now_s=100.0 + second) is None
        meter.record_read(MIB, read_to=(read := read + MIB))
        assert _pause(meter, now_s=104.9 + second) == 700
    assert _pause(meter, now_s=159.9) == 700
    assert _pause(meter, now_s=160.0) is None, "another minute"


def test_a_message_beyond_the_limit_is_paid_for_by_the_minute() -> None:
    meter = _meter()
    assert _pause(meter) is None
    meter.record_read(12 * MIB, read_to=12 * MIB)
    assert _pause(meter, now_s=159.0) == 700
    assert _pause(meter, now_s=160.0) is None


def test_who_is_near_enough_or_reads_at_another_time_is_not_limited() -> None:
    meter = _meter()
    assert _pause(meter, end=30 * MIB) is None
    assert _pause(meter, end=_FAR) is None
    assert meter.most_bytes(9 * MIB) == 9 * MIB, "looked at again after a minute only"
    assert _pause(meter, end=_FAR, now_s=160.0) is None
    assert meter.most_bytes(9 * MIB) == MIB
    assert _meter().pause_ms(FlowRules((DataLimit(0, 100, 30, 0, 700),)), end_position=_FAR, now_s=1, hhmm=101) is None


def test_a_limit_of_nothing_gives_nothing() -> None:
    assert _pause(_meter(), FlowRules((DataLimit(0, 2400, 30, 0, 900),))) == 900


def test_new_rules_hold_at_once_and_cleared_ones_end_at_once() -> None:
    meter = _meter()
    assert _pause(meter, NO_FLOW_RULES) is None
    meter.record_read(5 * MIB, read_to=5 * MIB)
    assert _pause(meter, FlowRules((DataLimit(0, 2400, 30, 0, 900),)), now_s=101.0) == 900
    assert _pause(meter, NO_FLOW_RULES, now_s=102.0) is None
    assert meter.most_bytes(7) == 7


@given(
    st.lists(st.tuples(st.floats(0, 20), st.integers(1, 3 * MIB)), max_size=60),
    st.integers(0, 40),
)
def test_never_more_than_the_limit_and_one_read(reads: list[tuple[float, int]], limit_mib: int) -> None:
    rules = FlowRules((DataLimit(0, 2400, 30, limit_mib, 700),))
    meter, now_s, position = _meter(), 0.0, 0
    given_at: list[tuple[float, int]] = []
    for wait_s, size in reads:
        now_s += wait_s
        if meter.pause_ms(rules, end_position=2**50, now_s=now_s, hhmm=0) is None:
            position += size
            meter.record_read(size, read_to=position)
            given_at.append((now_s, size))
    most = rules.data_limits[0].limit_bytes
    for start_s, _ in given_at:  # any minute lies in two of the meter's
        within = [size for at_s, size in given_at if start_s <= at_s < start_s + 60]
        assert sum(within) <= 2 * most + 2 * 3 * MIB


def test_whose_priority_counts() -> None:
    flow = FlowControl()
    assert flow.priority(-2) == DEFAULT_PRIORITY_ID
    flow.priority_id = 301
    assert (flow.priority(-2), flow.priority(0), flow.priority(203)) == (301, 301, 203)
