"""The measures of Spark, one a file, each with a `MEASURE`: see `bench.harness.bench.Measure`."""

NAMES = ("count", "noop", "parquet", "available-now", "inlong-msg", "latency", "share")
"""In the order in which they are taken."""
