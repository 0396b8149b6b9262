"""One query of Spark over a filled topic, in a session of its own: how many rows a second, from its start to its end.

Before it the same query runs over a part of the topic, so that the JVM has compiled and the workers are there.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from bench.clients.window import Result, Spec, Window, cpu_s, percentiles, report, spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

WARM_SHARE = 10
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
"""Those of the pipeline runner's own session."""
UNIT = 28
"""Of our offsets."""


def session(given: Spec) -> SparkSession:
    """A session on two cores whose files are all below `home`."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName("pytubemq bench").master("local[2,4]")
    places = {"spark.local.dir": given["home"], "spark.sql.warehouse.dir": f"{given['home']}/warehouse"}
    settings = SETTINGS | places | given.get("settings", {})
    if given.get("jars"):
        settings["spark.jars"] = given["jars"]
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


class Tree(Window):
    """Counts the processor time of this process with all its descendants as the client's: the JVM and its workers."""

    def open(self, count: int) -> None:
        super().open(count)
        self._tree_s = tree_cpu_s()

    def close(self, count: int) -> Result:
        tree_s = tree_cpu_s() - self._tree_s
        found = super().close(count)
        cores = found["cores"]
        client = round(tree_s / found["seconds"], 2)
        cores["others"] = round(max(0.0, cores["others"] + cores["client"] - client), 2)
        cores["client"] = client
        return found


def tree_cpu_s() -> float:
    """Processor seconds of this process and everything below it that is there now, and of what it has waited for."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            parents[int(entry)] = int(fields[1])
    total, below = 0.0, {os.getpid()}
    while below:
        total += sum(map(cpu_s, below))
        below = {pid for pid, parent in parents.items() if parent in below}
    return total


def part(given: Spec) -> dict[str, str]:
    """Options for the warming up: the first tenth of every partition."""
    rows = given["rows"] // given.get("rows_per_message", 1) // WARM_SHARE // 4
    options = dict(given["options"])
    if given["format"] == "kafka":
        topic = options["subscribe"]
        counts = ", ".join(f'"{number}": {rows}' for number in range(4))
        return options | {"endingOffsets": f'{{"{topic}": {{{counts}}}}}'}
    import pytubemq.sync

    with pytubemq.sync.connect(options["master"]) as tube:
        ends = {
            str(one): edges[0] + rows * UNIT for one, edges in tube.offsets(tube.partitions(options["topic"])).items()
        }
    inner = ", ".join(f'"{key}": {offset}' for key, offset in ends.items())
    return options | {"endingOffsets": f"{{{inner}}}"}


def batch(spark: SparkSession, given: Spec, options: dict[str, str]) -> DataFrame:
    """The whole topic as a table; of what decoding makes only what could be decoded, without the column of errors."""
    rows = spark.read.format(given["format"]).options(**options).load()
    return rows.where("_error IS NULL").drop("_error") if "decode" in options else rows


def count(spark: SparkSession, given: Spec, options: dict[str, str], out: str) -> int:
    """Count all rows."""
    return batch(spark, given, options).count()


def noop(spark: SparkSession, given: Spec, options: dict[str, str], out: str) -> None:
    """Read all columns and forget them."""
    batch(spark, given, options).write.format("noop").mode("overwrite").save()


def parquet(spark: SparkSession, given: Spec, options: dict[str, str], out: str) -> None:
    """Write all columns to Parquet."""
    batch(spark, given, options).write.parquet(out)


def available_now(spark: SparkSession, given: Spec, options: dict[str, str], out: str) -> None:
    """A stream that ends when it has written what was there."""
    stream = spark.readStream.format(given["format"]).options(**options, startingOffsets="earliest").load()
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", f"{out}-checkpoint")
        .trigger(availableNow=True)
        .start(out)
    )
    query.awaitTermination()


def latency(spark: SparkSession, given: Spec) -> Result:
    """How long after it was sent each message is in the driver's hands, with its micro-batch; two whole periods."""
    from pyspark.sql import functions

    body = "value" if given["format"] == "kafka" else "body"
    stream = spark.readStream.format(given["format"]).options(**given["options"]).load()
    sent = stream.select(
        functions.conv(functions.hex(functions.substring(body, 1, 8)), 16, 10).cast("long").alias("us")
    )
    latencies: list[float] = []
    batches: list[float] = []
    begun_s = [0.0]

    def take(rows: DataFrame, _batch: int) -> None:
        stamps = [row.us for row in rows.collect()]
        now_s = time.time()
        begun_s[0] = begun_s[0] or (now_s if stamps else 0.0)
        if begun_s[0] and now_s > begun_s[0] + given["warm_s"]:
            latencies.extend(now_s - stamp / 1e6 for stamp in stamps)
            batches.append(now_s)

    query = sent.writeStream.foreachBatch(take).option("checkpointLocation", f"{given['home']}/checkpoint").start()
    while not begun_s[0] or time.time() < begun_s[0] + given["warm_s"] + given["measure_s"]:
        if query.awaitTermination(0.2):  # type: ignore[arg-type]  # it takes parts of a second, too
            break
    query.stop()
    between = [after - before for before, after in pairwise(batches)]
    return {"latency_ms": percentiles(latencies), "batches": len(batches), "batch_ms": percentiles(between)}


DOES: dict[str, Callable[[SparkSession, Spec, dict[str, str], str], int | None]] = {
    "count": count,
    "noop": noop,
    "parquet": parquet,
    "available_now": available_now,
}


def main(given: Spec) -> Result:
    """Warm up, then measure."""
    begun_s = time.perf_counter()
    spark = session(given)
    session_s = time.perf_counter() - begun_s
    if given["do"] == "latency":
        found = latency(spark, given)
        spark.stop()
        return found | {"session_s": round(session_s, 2)}
    do, home = DOES[given["do"]], given["home"]
    warm = DOES["parquet"] if do is available_now else do
    warm(spark, given, part(given), f"{home}/warm")
    window = Tree(given.get("pids"))
    window.open(0)
    rows = do(spark, given, given["options"], f"{home}/out")
    taken = window.close(given["rows"])
    if rows is None and do is not noop:
        rows = spark.read.parquet(f"{home}/out").count()
    if rows is not None and rows != given["rows"]:
        raise SystemExit(f"{rows} rows came instead of {given['rows']}")
    spark.stop()
    return taken | {"session_s": round(session_s, 2)}


if __name__ == "__main__":
    report(main(spec()))
