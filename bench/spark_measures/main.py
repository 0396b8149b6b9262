"""`bench/spark`: the measures of Spark, taken and shown as `bench/compare` does its own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from bench.harness.main import command
from bench.spark_measures import NAMES

if TYPE_CHECKING:
    from bench.harness.bench import Measure


def load(name: str) -> Measure:
    """The measure of that name."""
    found: Measure = importlib.import_module(f"bench.spark_measures.{name.replace('-', '_')}").MEASURE
    return found


main = command(
    "spark",
    "Measure TubeMQ on Spark beside Spark's own Kafka source on this machine, and print the ratios.",
    "300,000 rows instead of 2,000,000, and shorter waits.",
    NAMES,
    load,
)
