"""The page about figures says what the servers and the Spark listener tell."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

from pytubemq.observe.metrics import Kind
from scripts.docs.metrics import METRICS as TABLES

PAGE = Path(__file__).parents[3].joinpath("docs/reference/metrics.md").read_text("utf-8")
METRICS = list(chain.from_iterable(TABLES.values()))


def test_what_the_text_names_exists() -> None:
    names = {f"pytubemq_{metric.name}" for metric in METRICS}
    assert set(re.findall(r"pytubemq_\w+", PAGE)) == names


def test_names_are_told_once_and_as_prometheus_wants_them() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name), metric
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric
        assert metric.kind is not Kind.HISTOGRAM or metric.name.endswith("_seconds"), metric
        assert metric.about[:1].isalnum(), metric
        assert not metric.about.endswith("."), metric
