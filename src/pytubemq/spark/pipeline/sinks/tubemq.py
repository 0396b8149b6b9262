"""A TubeMQ topic, by the sink of this package: exactly once for readers with `dedup` where repeats can be told.

The invariant: what tells a row from all others (query, batch, Spark partition, number) is the same when a batch comes
again; that holds for plans that are row by row, or by a key column that the user names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.sinks.port import SinkContext
from pytubemq.spark.pipeline.sinks.rows import write_counted
from pytubemq.spark.pipeline.spec.model import Guarantee
from pytubemq.spark.pipeline.spec.secrets import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.spark.pipeline.spec.model import Sink


class TubeMqSink:
    """The sink `tubemq`. Rows without a column `body` go as one JSON object each."""

    def __init__(self, spec: Sink) -> None:
        if not spec.master:
            raise ConfigError(f"sink {spec.name}: tubemq needs a master", hint="add master: host:8715")
        self.spec = spec
        self._idempotent = spec.options.get("idempotent", "true").lower() != "false"

    @property
    def guarantee(self) -> Guarantee:
        """Exactly once for readers that drop repeats, unless idempotent sends are switched off."""
        return Guarantee.EXACTLY_ONCE if self._idempotent else Guarantee.AT_LEAST_ONCE

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """See that the Master answers and knows the topic."""
        import pytubemq.sync
        from pytubemq.errors import TubeError
        from pytubemq.spark.sink.columns import sink_columns
        from pytubemq.spark.sink.options import parse_options

        try:
            options = parse_options(self._options(0, SinkContext(spark, "check")), streaming=False)
            if schema is not None:
                sink_columns(self._messages(spark.createDataFrame([], schema)).schema, options)
            with pytubemq.sync.connect(options.masters, client_name="pipeline") as tube:
                if options.topic is not None:
                    tube.partitions(options.topic)
        except TubeError as error:
            raise ConfigError(f"sink {self.spec.name}: {error.message}", hint=error.hint) from error

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Send the rows, each with what tells it from all others."""
        options = self._options(batch_id, context)

        def send(counted: DataFrame) -> None:
            counted.write.format("tubemq").mode("append").options(**options).save()

        messages = self._messages(rows)
        if "planIsMapOnly" in options and not numbers_are_stable(messages):
            raise self._untold("its rows are shuffled or made at random, so their numbers cannot tell them apart")
        return write_counted(messages, send)

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """A topic cannot be asked; the readers' `dedup` drops what comes twice."""
        return None

    def _options(self, batch_id: int, context: SinkContext) -> dict[str, str]:
        options = {key: resolve(value) for key, value in self.spec.options.items()}
        options["master"] = resolve(self.spec.master or "")
        if self.spec.topic:
            options["topic"] = resolve(self.spec.topic)
        if not self._idempotent:
            return options
        options |= {
            "idempotent": "true",
            "queryId": f"{context.pipeline_id}/{self.spec.name}",
            "batchId": str(batch_id),
        }
        if self.spec.idempotency_key:
            options["idempotencyKey"] = self.spec.idempotency_key
        elif context.map_only:
            options["planIsMapOnly"] = "true"
        else:
            raise self._untold("its rows come from a step that keeps state, so their numbers cannot tell them apart")
        return options

    def _untold(self, why: str) -> ConfigError:
        return ConfigError(
            f"sink {self.spec.name}: {why}",
            hint="name a column with idempotency_key, or set options: {idempotent: false} for at least once",
        )

    def _messages(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        if "body" in rows.columns:
            return rows
        own = [*self._routing(rows)]
        body = f.to_json(f.struct(*(f.col(f"`{name}`") for name in rows.columns)), {"ignoreNullFields": "false"})
        return rows.select(*own, body.alias("body"))

    def _routing(self, rows: DataFrame) -> list[str]:
        wanted = {"topic", "msgType", "msgTime", "attributes", self.spec.idempotency_key}
        return [name for name in rows.columns if name in wanted]


def numbers_are_stable(rows: DataFrame) -> bool:
    """Whether a replay of a batch has each row at the same place of the same Spark partition: no exchange between
    tasks, and nothing random.
    """
    plan: Any = rows._jdf.queryExecution()
    if not plan.analyzed().deterministic():
        return False
    parts = str(plan.executedPlan().toString()).split("InMemoryRelation")[0]
    return "Exchange" not in parts.replace("BroadcastExchange", "").replace("ReusedExchange", "")
