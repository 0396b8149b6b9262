"""AvailableNow stream to Parquet: the whole topic, 1 KiB messages, 4 partitions."""

from __future__ import annotations

from bench.spark_measures.common import Throughput

MEASURE = Throughput("available-now", "available_now", "AvailableNow stream to Parquet", 1.2)
