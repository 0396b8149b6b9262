"""A Spark job in a process of its own, which writes down all that Spark has to say: logs at DEBUG, plans, event log.

Started with the scratch directory and the options of source and sink as JSON; prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

ROWS = 200


def main(scratch: Path, options: dict[str, str]) -> dict[str, object]:
    events = scratch / "events"
    events.mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    with local_session(scratch / "spark", conf=conf) as spark:
        spark.sparkContext.setLogLevel("DEBUG")
        return run(spark, scratch, options)


def run(spark: SparkSession, scratch: Path, options: dict[str, str]) -> dict[str, object]:
    rows = spark.range(ROWS).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS body")
    rows.write.format("tubemq").options(**options, topic="orders").mode("append").save()
    rows.selectExpr("body", "'orders' AS topic").write.format("tubemq").options(**options).mode("append").save()
    read = spark.read.format("tubemq").options(**options, topic="orders").load()
    found = sorted(int(row.body) for row in read.select("body").collect())
    explain(read, scratch / "explain.txt")

    copied = (
        spark.readStream.format("tubemq")
        .options(**options, topic="orders", startingOffsets="earliest", maxRowsPerTrigger="150")
        .load()
        .select("body")
        .writeStream.format("tubemq")
        .options(**options, topic="copies", checkpointLocation=str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    ended = copied.awaitTermination(240)
    (scratch / "progress.json").write_text(json.dumps([json.loads(one.json) for one in copied.recentProgress]))
    copies = spark.read.format("tubemq").options(**options, topic="copies").load().count()

    (scratch / "errors.txt").write_text("")
    refused = [
        refusal(lambda: spark.read.format("tubemq").options(**options, topic="payments").load().count(), scratch)
    ]
    refused.append(
        refusal(lambda: rows.write.format("tubemq").options(**options, topic="payments").mode("append").save(), scratch)
    )
    return {"found": found, "ended": ended, "copies": copies, "refused": refused}


def explain(frame: DataFrame, path: Path) -> None:
    with path.open("w") as file, redirect_stdout(file):
        for mode in ("extended", "codegen", "cost", "formatted"):
            frame.explain(mode=mode)
        print(frame._jdf.queryExecution().toString())


def refusal(action: Callable[[], object], scratch: Path) -> str:
    """The text of the error of an action, whose traceback is written down."""
    try:
        action()
    except Exception as error:
        with (scratch / "errors.txt").open("a") as file:
            traceback.print_exception(error, file=file)
        return str(error)
    return ""


if __name__ == "__main__":
    found = main(Path(sys.argv[1]), json.loads(sys.argv[2]))
    Path(sys.argv[1], "found.json").write_text(json.dumps(found))
