"""TubeMQ topics as Spark tables and streams: `spark.read.format("tubemq")` and `spark.readStream.format("tubemq")`.

The way of a batch: the driver plans ranges of offsets, the executors fetch them over TCP in parallel, each fetch
becomes one Arrow batch. The invariant: what a range holds depends on its two offsets alone, so a replay reads the same
rows.
"""
