"""The pauses that flow-control rules ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.flow import DataLimit, EmptyReads, FlowRules, LowFetch, format_rules
from pytubemq.core.throttle import NO_RULES, AnnouncedRules, Fetched, Pause, Rate, RulesInForce, Throttle
from pytubemq.errors import FormatError
from pytubemq.model.ids import UNDEFINED

MIB = 1 << 20
NOON = 1200
LIMIT = FlowRules(data_limits=(DataLimit(800, 1759, 100, 12, 1500),))
NIGHT = FlowRules(data_limits=(DataLimit(0, 759, 100, 12, 1500),))
EMPTY = FlowRules(empty_reads=(EmptyReads(5, 3000), EmptyReads(2, 1000)))
LOW = FlowRules(low_fetch=LowFetch(10, 100, 400))


def fetched(
    code: int = 200,
    size_bytes: int = 0,
    *,
    lag_bytes: int | None = 500 * MIB,
    require_slow: bool = False,
    escaped: bool = False,
    filtered: bool = False,
) -> Fetched:
    """An answer."""
    return Fetched(code, size_bytes, lag_bytes, require_slow, escaped, filtered)


def after(throttle: Throttle, what: Fetched, rules: RulesInForce, now_s: float, otherwise_s: float = 0.0) -> float:
    """The pause, at noon."""
    return throttle.after(what, rules, otherwise_s=otherwise_s, now_s=now_s, hhmm=NOON).wait_s


@given(
    st.lists(st.tuples(st.sampled_from([200, 404, 452, 503]), st.integers(0, 1 << 30), st.floats(0, 1e6))),
    st.floats(0, 10),
)
def test_without_rules_nothing_is_delayed(answers: list[tuple[int, int, float]], otherwise_s: float) -> None:
    throttle = Throttle()
    for code, size, now_s in sorted(answers, key=lambda one: one[2]):
        pause = throttle.after(fetched(code, size), NO_RULES, otherwise_s=otherwise_s, now_s=now_s, hhmm=NOON)
        assert pause == Pause(otherwise_s, None)


def test_a_twelfth_of_the_minutes_share_may_come_in_five_seconds() -> None:
    throttle, rules = Throttle(), RulesInForce(cluster=LIMIT)
    assert after(throttle, fetched(size_bytes=MIB - 1), rules, 0.0) == 0
    assert after(throttle, fetched(size_bytes=1), rules, 0.1) == 1.5
    assert after(throttle, fetched(size_bytes=1), rules, 1.7) == 1.5
    assert after(throttle, fetched(size_bytes=1), rules, 5.0) == 0, "the next five seconds have begun"


def test_the_minute_has_an_end_of_its_own() -> None:
    throttle, rules = Throttle(), RulesInForce(cluster=LIMIT)
    assert after(throttle, fetched(size_bytes=12 * MIB), rules, 0.0) == 1.5
    assert after(throttle, fetched(size_bytes=1), rules, 30.0) == 1.5
    assert after(throttle, fetched(size_bytes=1), rules, 60.0) == 0


def test_the_reason_names_the_rule() -> None:
    pause = Throttle().after(
        fetched(size_bytes=MIB), RulesInForce(cluster=LIMIT), otherwise_s=0.0, now_s=0.0, hhmm=NOON
    )
    assert pause == Pause(1.5, "12 MiB a minute while more than 100 MiB are left to read")


def test_the_lag_is_compared_in_mib_and_looked_at_again_every_five_seconds() -> None:
    throttle, rules = Throttle(), RulesInForce(cluster=LIMIT)
    near, far = fetched(size_bytes=MIB, lag_bytes=100 * MIB), fetched(size_bytes=MIB, lag_bytes=100 * MIB + 1)
    assert after(throttle, near, rules, 0.0) == 0
    assert after(throttle, far, rules, 4.9) == 0
    assert after(throttle, far, rules, 5.1) == 1.5


def test_the_time_of_day_counts() -> None:
    assert after(Throttle(), fetched(size_bytes=MIB), RulesInForce(cluster=NIGHT), 0.0) == 0


def test_an_unknown_lag_limits_nothing() -> None:
    assert after(Throttle(), fetched(size_bytes=MIB, lag_bytes=None), RulesInForce(cluster=LIMIT), 0.0) == 0
    assert after(Throttle(), fetched(size_bytes=MIB, lag_bytes=-1), RulesInForce(cluster=LIMIT), 0.0) == 0


def test_the_groups_limit_goes_before_the_clusters() -> None:
    wide = FlowRules(data_limits=(DataLimit(0, 2400, 21, 1200, 200),))
    assert after(Throttle(), fetched(size_bytes=MIB), RulesInForce(group=wide, cluster=LIMIT), 0.0) == 0
    assert RulesInForce(group=wide).escapes(NOON)
    assert not RulesInForce(group=NIGHT).escapes(NOON)
    assert not RulesInForce(cluster=wide).escapes(NOON)


def test_a_limit_of_nothing_lets_one_fetch_through_each_time() -> None:
    none = FlowRules(data_limits=(DataLimit(0, 2400, 21, 0, 700),))
    assert after(Throttle(), fetched(size_bytes=1), RulesInForce(group=none), 0.0) == 0.7


def test_new_rules_act_at_once() -> None:
    throttle = Throttle()
    assert after(throttle, fetched(size_bytes=MIB), NO_RULES, 0.0) == 0
    assert after(throttle, fetched(size_bytes=MIB), RulesInForce(cluster=LIMIT), 0.1) == 1.5
    assert after(throttle, fetched(size_bytes=MIB), NO_RULES, 0.2) == 0


def test_fetches_that_bring_nothing_are_spaced_more_and_more() -> None:
    throttle, rules = Throttle(), RulesInForce(cluster=EMPTY)
    pauses = [after(throttle, fetched(404), rules, float(number), 0.4) for number in range(6)]
    assert pauses == [0.4, 1.0, 1.0, 1.0, 3.0, 3.0]
    assert after(throttle, fetched(200, 10), rules, 7.0) == 0
    assert after(throttle, fetched(404), rules, 8.0, 0.4) == 0.4


def test_a_groups_rules_for_empty_fetches_replace_the_clusters() -> None:
    rules = RulesInForce(group=FlowRules(empty_reads=(EmptyReads(3, 50),)), cluster=EMPTY)
    throttle = Throttle()
    assert [after(throttle, fetched(404), rules, float(n), 0.4) for n in range(4)] == [0.4, 0.4, 0.05, 0.05]


def test_other_refusals_keep_their_own_pause() -> None:
    rules = RulesInForce(group=EMPTY, cluster=LOW)
    assert after(Throttle(), fetched(503), rules, 0.0, 0.3) == 0.3


@pytest.mark.parametrize(
    ("what", "wait_s"),
    [
        (fetched(), 0.01),
        (fetched(filtered=True), 0.1),
        (fetched(filtered=True, require_slow=True), 0.4),
        (fetched(escaped=True), 0.0),
    ],
)
def test_the_pause_after_every_fetch(what: Fetched, wait_s: float) -> None:
    assert after(Throttle(), what, RulesInForce(cluster=LOW), 0.0) == wait_s


def test_rules_are_told_by_number() -> None:
    text = format_rules(LIMIT)
    announced = AnnouncedRules().after_response(7, text)
    assert announced == AnnouncedRules(7, LIMIT)
    assert announced.after_response(None, None) is announced
    assert announced.after_response(7, " ") is announced
    assert announced.after_response(8, format_rules(LOW)) == AnnouncedRules(8, LOW)
    assert announced.after_response(8, " ") == AnnouncedRules(8)
    assert announced.after_response(UNDEFINED, " ") == AnnouncedRules()
    with pytest.raises(FormatError):
        announced.after_response(9, "{")


@given(
    st.floats(0.1, 1e6),
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1e6)), max_size=50),
)
def test_a_rate_is_kept_on_average(per_s: float, steps: list[tuple[float, float]]) -> None:
    rate, now_s, taken, last = Rate(per_s), 0.0, 0.0, 0.0
    for pause_s, amount in steps:
        now_s += pause_s + rate.wait_s(now_s + pause_s)
        assert rate.wait_s(now_s) <= 1e-6 * max(1.0, now_s)
        rate.record(amount, now_s)
        taken, last = taken + amount, amount
        assert taken - last <= per_s * (now_s + 1) * (1 + 1e-6) + 1e-6
