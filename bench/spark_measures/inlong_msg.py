"""InLongMsg with csv of 10 fields inside, decoded in the source into typed columns, written to Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Reach, Row, Target
from bench.harness.processes import client, ours
from bench.measures.common import cores, notes, rate, runs
from bench.spark_measures.common import FILL_LIMIT_S, PARTITIONS, first_rows, spark

if TYPE_CHECKING:
    from bench.harness.bench import Bench, Reading

RECORDS, QUICK_RECORDS = 1_000_000, 200_000
PER_MESSAGE = 100
TARGET = Target(Reach.OURS_AT_LEAST, 250_000.0)
TYPED, WITH_ATTRIBUTES = "typed columns", "and its time and attributes in columns"
SCHEMA = (
    "id BIGINT, flight INT, code STRING, state STRING, latitude DOUBLE, longitude DOUBLE, altitude INT, "
    "heavy BOOLEAN, seen TIMESTAMP, trace STRING"
)


class InLongMsg:
    """Ours alone: Spark has nothing that reads it."""

    name = "inlong-msg"
    title = "InLongMsg (csv, 10 fields) to typed columns to Parquet"
    limit_s = 900.0

    async def run(self, bench: Bench) -> list[Row]:
        """Records a second."""
        cluster = await bench.ours()
        records = QUICK_RECORDS if bench.options.quick else RECORDS
        topic = bench.fresh("inlong")
        await cluster.create([topic], partitions=PARTITIONS)
        bench.progress("filling the topic")
        fill = {"master": cluster.master, "topic": topic, "records": records, "records_per_message": PER_MESSAGE}
        filled = await client(ours("ours_inlong"), fill, within_s=FILL_LIMIT_S)
        options = {
            "master": cluster.master, "topic": topic, "decode": "inlong-msg", "decode.inner": "csv",
            "decode.schema": SCHEMA,
        }  # fmt: skip
        plain = options | {"decode.timeColumn": "", "decode.attributesColumn": ""}
        query: dict[str, Any] = {
            "do": "parquet", "format": "tubemq", "rows": records, "rows_per_message": PER_MESSAGE, "pids": cluster.pids,
        }  # fmt: skip
        taken = await bench.take(
            {
                TYPED: lambda: spark(bench, query | {"options": plain}),
                WITH_ATTRIBUTES: lambda: spark(bench, query | {"options": options}),
            }
        )
        size = f"{filled['messages']:,} messages, {filled['bytes'] / records:.0f} bytes a record as they were sent"
        return [
            self._row(side, reading, target=target, size=size, records=records)
            for (side, reading), target in zip(taken.items(), (TARGET, None), strict=True)
        ]

    def _row(self, side: str, reading: Reading, *, target: Target | None, size: str, records: int) -> Row:
        found = {"ours": reading}
        return Row(
            self.name, f"{records:,} records, {side}", "records/s", rate(reading),
            target=target, note=notes(cores(found), size, first_rows(found)), runs=runs(found),
        )  # fmt: skip


MEASURE = InLongMsg()
