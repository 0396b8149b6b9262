"""The page about figures says what the servers and the Spark listener tell."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from pytubemq.admin.metrics_page import TABLES, put
from pytubemq.observe.metrics import Kind
from pytubemq.spark.observe.metrics import LAG_METRICS

PAGE = Path(__file__).parents[3].joinpath("docs/reference/metrics.md").read_text("utf-8")
ALL = {**TABLES, "spark": LAG_METRICS}
METRICS = list(chain.from_iterable(ALL.values()))


def test_the_tables_are_those_of_the_code() -> None:
    assert put(PAGE, ALL) == PAGE, "run scripts/write_metrics_page.py"


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


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="process"):
        put("")
