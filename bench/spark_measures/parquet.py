"""Batch read to Parquet: the whole topic, 1 KiB messages, 4 partitions."""

from __future__ import annotations

from bench.spark_measures.common import Throughput

MEASURE = Throughput("parquet", "parquet", "batch read to Parquet", 1.2)
