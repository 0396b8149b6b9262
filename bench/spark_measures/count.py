"""Batch read to count: the whole topic, 1 KiB messages, 4 partitions."""

from __future__ import annotations

from bench.spark_measures.common import Throughput

MEASURE = Throughput("count", "count", "batch read to count", 1.5)
