"""Batch read, all columns, written to nothing: the whole topic, 1 KiB messages, 4 partitions."""

from __future__ import annotations

from bench.spark_measures.common import Throughput

MEASURE = Throughput("noop", "noop", "batch read, all columns, written to nothing", None)
