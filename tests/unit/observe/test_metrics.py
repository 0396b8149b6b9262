"""Figures as values, and as the text that Prometheus takes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pytubemq.observe.histogram import Histogram
from pytubemq.observe.metrics import OTHER, Kind, Metric, Reading, Shown, Source, counter, gauge, grouped, times
from pytubemq.observe.process import PROCESS_METRICS
from pytubemq.observe.prometheus import render


def parsed(*readings: Reading) -> dict[str, list[tuple[str, dict[str, str], float]]]:
    """What a scrape finds: samples by the family's name."""
    families = text_string_to_metric_families(render(readings).decode())
    return {
        family.name: [(sample.name, sample.labels, sample.value) for sample in family.samples] for family in families
    }


def test_each_kind_is_told_as_prometheus_expects_it() -> None:
    histogram = Histogram()
    for taken_s in (0.0001, 0.003, 100.0):
        histogram.add(taken_s)
    sources: list[Source[None]] = [
        counter("sent_total", "Sent", lambda _: {("a", "1"): 2, ("b", "1"): 3}, ("topic", "x")),
        gauge("open", "Open", lambda _: 7),
        times("took_seconds", "Took", lambda _: histogram),
    ]
    found = parsed(*(source.reading(None) for source in sources))
    assert found["pytubemq_sent"] == [
        ("pytubemq_sent_total", {"topic": "a", "x": "1"}, 2),
        ("pytubemq_sent_total", {"topic": "b", "x": "1"}, 3),
    ]
    assert found["pytubemq_open"] == [("pytubemq_open", {}, 7)]
    took = {
        (name.removeprefix("pytubemq_took_seconds"), labels.get("le")): value
        for name, labels, value in found["pytubemq_took_seconds"]
    }
    assert took["_bucket", "0.000125"] == 1
    assert took["_bucket", "0.002"] == 1
    assert took["_bucket", "0.004"] == 2
    assert took["_bucket", "16.384"] == 2
    assert took["_bucket", "+Inf"] == took["_count", None] == 3
    assert took["_sum", None] == pytest.approx(100.0031)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_label_survives(label: str) -> None:
    # the parser of prometheus_client ends a line at any of these; the format itself only at a line feed
    if label.splitlines() not in ([], [label]):
        return
    found = parsed(Reading(Metric("x", Kind.GAUGE, "X", ("topic",)), {(label,): 1}))
    assert found["pytubemq_x"] == [("pytubemq_x", {"topic": label}, 1)]


@given(st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 100))))
def test_what_is_told_apart_is_bounded_and_stays_while_it_is_there(rounds: list[dict[str, float]]) -> None:
    shown, before = Shown(most=3), frozenset[str]()
    for weights in rounds:
        now = shown.choose(weights)
        assert len(now) == min(3, len(weights))
        assert now <= weights.keys()
        assert before & weights.keys() <= now
        fresh = now - before
        assert not fresh or min(weights[name] for name in fresh) >= max(
            (weights[name] for name in weights.keys() - now), default=0
        )
        values = grouped(weights, now)
        assert sum(values.values()) == sum(weights.values())
        assert {label for (label,) in values} <= now | {OTHER}
        before = now


def test_the_process_tells_of_itself() -> None:
    found = parsed(*(source.reading(None) for source in PROCESS_METRICS))
    assert found["pytubemq_process_resident_memory_bytes"][0][2] > 1024 * 1024
    assert 0 < found["pytubemq_process_open_fds"][0][2] < found["pytubemq_process_max_fds"][0][2]
    assert "version" in found["pytubemq_build_info"][0][1]
