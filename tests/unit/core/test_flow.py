"""Flow-control rules: their text, their bounds, which rule fits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.flow import (
    NO_FLOW_RULES,
    DataLimit,
    EmptyReads,
    FlowRules,
    LowFetch,
    format_rules,
    parse_rules,
    rule_clock,
)
from pytubemq.errors import FormatError
from pytubemq.model.limits import MAX_FLOW_RULES, MAX_FLOW_RULES_CHARS, MIB

_EXAMPLE = (
    '[{"type":0,"rule":[{"start":"08:00","end":"17:59","dltInM":1024,"limitInM":20,"freqInMs":1000}]},'
    '{"type":1,"rule":[{"zeroCnt":5,"freqInMs":5000}]},'
    '{"type":3,"rule":[{"normFreqInMs":0,"filterFreqInMs":100,"minDataFilterFreqInMs":400}]}]'
)
_TIMES = st.builds(lambda hour, minute: hour * 100 + minute, st.integers(0, 24), st.integers(0, 59))
_INTS = st.integers(0, 2**31 - 1)


@st.composite
def _limits(draw: st.DrawFn) -> DataLimit:
    start, end = sorted(draw(st.lists(_TIMES, min_size=2, max_size=2, unique=True)))
    return DataLimit(start, end, draw(st.integers(21, 2**31 - 1)), draw(_INTS), draw(st.integers(200, 2**31 - 1)))


@st.composite
def _low_fetches(draw: st.DrawFn) -> LowFetch:
    fast, slow = sorted(draw(st.lists(st.integers(0, 300_000), min_size=2, max_size=2)))
    return LowFetch(draw(st.integers(0, 300_000)), fast, slow)


_RULES = st.builds(
    FlowRules,
    data_limits=st.lists(_limits(), max_size=5).map(lambda rules: tuple(sorted(rules, key=lambda r: r.start_hhmm))),
    empty_reads=st.lists(st.builds(EmptyReads, st.integers(1, 2**31 - 1), _INTS), max_size=5).map(
        lambda rules: tuple(sorted(rules, key=lambda r: -r.zero_count))
    ),
    low_fetch=st.none() | _low_fetches(),
)


@given(_RULES)
def test_rules_survive_their_text(rules: FlowRules) -> None:
    text = format_rules(rules)
    assert parse_rules(text) == rules
    assert format_rules(parse_rules(text)) == text
    assert rules.count == len(json.loads(text))


@given(_RULES, st.integers(0, 2**45), _TIMES)
def test_the_first_rule_that_fits_decides(rules: FlowRules, lag: int, hhmm: int) -> None:
    found = rules.data_limit(lag, hhmm)
    fitting = [r for r in rules.data_limits if r.start_hhmm <= hhmm <= r.end_hhmm and lag / MIB > r.lag_mib]
    assert found == (fitting[0] if fitting else None)


@given(_RULES, st.integers(0, 2**31))
def test_the_largest_count_that_is_reached_decides_the_pause(rules: FlowRules, count: int) -> None:
    reached = [rule for rule in rules.empty_reads if rule.zero_count <= count]
    pause = rules.empty_read_pause_ms(count, -7)
    if not reached:
        assert pause == -7
    else:
        most = max(rule.zero_count for rule in reached)
        assert pause in {rule.freq_ms for rule in reached if rule.zero_count == most}


@given(st.text(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_text_gives_rules_or_a_format_error(text: str) -> None:
    try:
        rules = parse_rules(text)
    except FormatError:
        return
    assert parse_rules(format_rules(rules)) == rules


def test_the_originals_example() -> None:
    rules = parse_rules(_EXAMPLE)
    assert rules == FlowRules((DataLimit(800, 1759, 1024, 20, 1000),), (EmptyReads(5, 5000),), LowFetch(0, 100, 400))
    assert rules.count == 3
    assert format_rules(rules) == _EXAMPLE


@pytest.mark.parametrize("text", ["", " ", "[]", '[{"type":2,"rule":[{"any":1}]}]', '[{"type":2,"rule":[]}]'])
def test_no_rules(text: str) -> None:
    assert parse_rules(text) == NO_FLOW_RULES
    assert format_rules(NO_FLOW_RULES) == "[]"


def test_order_and_leniency_of_the_original() -> None:
    late = {"start": "9:5", "end": "24:00", "dltInM": "30", "limitInM": 0, "freqInMs": 200}
    early = {"start": "00:00", "end": "10:00", "dltInM": 21, "limitInM": 1, "freqInMs": 300}
    spaced = [{"zeroCnt": 3, "freqInMs": 1}, {"zeroCnt": 9, "freqInMs": 2}]
    rules = parse_rules(json.dumps([{"type": 1, "rule": spaced}, {"type": 0, "rule": [late, early]}]))
    assert [rule.start_hhmm for rule in rules.data_limits] == [0, 905]
    assert rules.data_limits[1].lag_mib == 30
    assert [rule.zero_count for rule in rules.empty_reads] == [9, 3]


def test_a_lag_is_compared_in_mib_and_times_are_inclusive() -> None:
    rules = FlowRules((DataLimit(800, 900, 21, 1, 200),))
    assert rules.data_limit(21 * MIB, 830) is None
    assert rules.data_limit(21 * MIB + 1, 800) is not None
    assert rules.data_limit(21 * MIB + 1, 900) is not None
    assert rules.data_limit(21 * MIB + 1, 901) is None
    assert rules.data_limit(2**60, 759) is None
    assert rules.data_limits[0].limit_bytes == MIB


@pytest.mark.parametrize(
    ("epoch_s", "hhmm"), [(0, 800), (15.9 * 3600 + 59, 2354), (16 * 3600, 0), (16 * 3600 - 0.5, 2359)]
)
def test_the_rules_clock_is_gmt_plus_8(epoch_s: float, hhmm: int) -> None:
    assert rule_clock(epoch_s) == hhmm


def _limit(**changes: object) -> str:
    fields: dict[str, object] = {"start": "08:00", "end": "17:59", "dltInM": 21, "limitInM": 0, "freqInMs": 200}
    fields |= changes
    return json.dumps([{"type": 0, "rule": [{name: value for name, value in fields.items() if value is not None}]}])


def _low(**fields: int) -> str:
    return json.dumps([{"type": 3, "rule": [fields]}])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[" * 50_000, "not JSON"),
        ("{}", "flow rules must be a JSON array"),
        ("[1]", "entry 0 must be a JSON object"),
        ('[{"rule":[]}]', "has no type"),
        ('[{"type":4,"rule":[]}]', "type is 4, it must be from 0 to 3"),
        ('[{"type":true,"rule":[]}]', "type must be a whole number"),
        ('[{"type":1,"rule":[{}]},{"type":1,"rule":[]}]', "type 1 is given twice"),
        ('[{"type":0,"rule":[]}]', "entry 0: type 0 has no rule"),
        ('[{"type":1}]', "entry 0: type 1 has no rule"),
        ('[{"type":1,"rule":{}}]', "`rule` must be a JSON array"),
        (_limit(start="18:00"), "start 18:00 must be before end 17:59"),
        (_limit(start="17:59"), "must be before"),
        (_limit(end="25:00"), "end must be a time"),
        (_limit(end="20:60"), "end must be a time"),
        (_limit(start=8), "start must be a time"),
        (_limit(dltInM=20), "type 0, rule 0: dltInM is 20, it must be from 21"),
        (_limit(dltInM=21.5), "dltInM must be a whole number"),
        (_limit(limitInM=-1), "limitInM is -1"),
        (_limit(freqInMs=199), "freqInMs is 199, it must be from 200"),
        (_limit(freqInMs=2**31), "freqInMs is 2147483648"),
        (_limit(limitInM=None), "type 0, rule 0 has no limitInM"),
        (_limit(limitInMB=5), "unknown field 'limitInMB'"),
        ('[{"type":1,"rule":[{"zeroCnt":0,"freqInMs":1}]}]', "zeroCnt is 0"),
        ('[{"type":1,"rule":[{"zeroCnt":1,"freqInMs":-1}]}]', "freqInMs is -1"),
        (_low(filterFreqInMs=1), "go together"),
        (_low(filterFreqInMs=2, minDataFilterFreqInMs=1), "must be at least filterFreqInMs"),
        (_low(normFreqInMs=300_001), "normFreqInMs is 300001"),
        (_low(), "give normFreqInMs"),
        ('[{"type":3,"rule":[{"normFreqInMs":1},{"normFreqInMs":2}]}]', "2 rules given, 1 is allowed"),
        (" [" + " " * MAX_FLOW_RULES_CHARS + "]", "characters"),
        (json.dumps([{"type": 1, "rule": [0] * (MAX_FLOW_RULES + 1)}]), f"{MAX_FLOW_RULES} are allowed"),
    ],
)
def test_a_bad_rule_is_named(text: str, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_rules(text)
    assert said in caught.value.message
