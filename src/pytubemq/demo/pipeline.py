"""The demo's Spark job, run as a process of its own: topic to typed columns to Parquet by month, then it ends.

    python -m pytubemq.demo.pipeline --master 127.0.0.1:8715 --topic flights --table DIR --checkpoint DIR

It tells what it does on standard output, one JSON object a line: `started`, `batch` after each micro-batch, `done`.
The invariant: a message that stands twice in the topic, because a send whose answer was lost was sent again, becomes
one row, told by the producer's id and sequence number in its attributes. Started again from its checkpoint it repeats
no row.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pytubemq.demo.produce import PRODUCER_ATTRIBUTE, SEQUENCE_ATTRIBUTE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS: Final = {
    "year": "int",
    "month": "int",
    "day": "int",
    "dep_time": "int",
    "sched_dep_time": "int",
    "dep_delay": "int",
    "arr_time": "int",
    "sched_arr_time": "int",
    "arr_delay": "int",
    "carrier": "string",
    "flight": "int",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "air_time": "int",
    "distance": "int",
    "hour": "int",
    "minute": "int",
    "time_hour": "timestamp",
}
"""The table's columns; beside them it keeps each row's `producer` and `sequence`."""

_CONF: Final = {
    # A job of half a minute: the first compiler's code is ready long before the second's would have paid off.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the job to its end."""
    options = _options(arguments)
    begun_s = time.monotonic()
    spark = _session(options.cores)
    try:
        _tell("started", session_s=time.monotonic() - begun_s)
        begun_s = time.monotonic()
        query = _start(_flights(spark, options), options)
        batches, rows_read = _follow(query)
        seconds = time.monotonic() - begun_s
        files = spark.read.parquet(options.table).inputFiles() if batches else []
        _tell("done", query_s=seconds, batches=batches, rows_read=rows_read, files=files)
    finally:
        spark.stop()
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pytubemq.demo.pipeline", description=__doc__)
    parser.add_argument("--master", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--table", required=True, help="directory of the Parquet table")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--rows-per-trigger", type=int, default=100_000)
    parser.add_argument("--cores", type=int, default=2)
    return parser.parse_args(arguments)


def _session(cores: int) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark would take any python3 on the path
    builder = SparkSession.builder.appName("pytubemq demo").master(f"local[{cores},4]")
    for name, value in {**_CONF, "spark.sql.shuffle.partitions": str(cores)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _flights(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    messages = (
        spark.readStream.format("tubemq")
        .option("master", options.master)
        .option("topic", options.topic)
        .option("startingOffsets", "earliest")
        .option("maxRowsPerTrigger", str(options.rows_per_trigger))
        .option("columns", "attributes,body")
        .load()
    )
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return (
        messages.select(
            F.from_json(F.col("body").cast("string"), schema, {"mode": "FAILFAST"}).alias("flight"),
            F.col("attributes")[PRODUCER_ATTRIBUTE].alias("producer"),
            F.col("attributes")[SEQUENCE_ATTRIBUTE].cast("bigint").alias("sequence"),
        )
        .select("flight.*", "producer", "sequence")
        .dropDuplicates(["producer", "sequence"])
    )


def _start(flights: DataFrame, options: argparse.Namespace) -> StreamingQuery:
    return (
        flights.writeStream.format("parquet")
        .partitionBy("month")
        .option("checkpointLocation", options.checkpoint)
        .trigger(availableNow=True)
        .start(options.table)
    )


def _follow(query: StreamingQuery) -> tuple[int, int]:
    """Tell of each batch once, until the query has ended; raises what ended it."""
    told: set[int] = set()
    rows_read = 0
    ended = False
    poll_s: Any = 0.1  # fractions of a second work; pyspark's types do not say so
    while not ended:
        ended = bool(query.awaitTermination(poll_s))
        for progress in query.recentProgress:
            if progress.batchId not in told and progress.numInputRows:
                told.add(progress.batchId)
                rows_read += progress.numInputRows
                _tell("batch", batch=progress.batchId, rows_read=rows_read)
    return len(told), rows_read


def _tell(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
