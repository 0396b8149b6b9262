"""A TubeMQ topic, by the sink of this package: exactly once at pytubemq Brokers, which drop what they have.

The invariant: what identifies a row (query, batch, Spark partition, number) is the same when a batch comes
again. Where each row is made of one row of the source, rows are numbered as they come; everywhere else they are first
put in an order that they themselves decide. With a key column repeats stand in the topic, and readers with `dedup` drop
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.guarantees import not_exactly_once, promise_of
from pytubemq.pipelines.file.cluster_keys import user_options
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.sinks.json_text import json_of
from pytubemq.pipelines.sinks.repeats import rows_differ
from pytubemq.pipelines.sinks.rows import is_deterministic, write_counted
from pytubemq.pipelines.sinks.sink_writer import SinkContext
from pytubemq.pipelines.sinks.tubemq.numbering import IDEMPOTENT, is_by_number, is_idempotent
from pytubemq.pipelines.sinks.tubemq.repeat_safety import find_repeating_broker
from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.sinks.sink_writer import SinkWriter
    from pytubemq.sync import Tube


ORDERED_TASKS: Final = 4
"""Into how many tasks rows go that are put in an order. A replay needs the same number, so nothing decides it."""
_IN_ORDER: Final = frozenset(
    {
        "Project", "Filter", "SubqueryAlias", "View", "Generate", "Expand", "EventTimeWatermark", "CollectMetrics",
        "MapInArrow", "PythonMapInArrow", "MapInPandas", "ArrowEvalPython", "BatchEvalPython", "MapElements",
        "DeserializeToObject", "SerializeFromObject", "TypedFilter", "MapPartitions", "ResolvedHint", "UnresolvedHint",
        "WithCTE", "CTERelationDef", "CTERelationRef",
    }
)  # fmt: skip
"""Spark's names of the parts of a plan that leave rows where they are, one after the other."""


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of a sink."""
    return TubeMqSink(spec)


class TubeMqSink:
    """The sink `tubemq`. Rows without a column `body` go as one JSON object each."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self._idempotent = is_idempotent(spec)
        self._doubt: str | None = None
        """The reason why a number may not count once, as far as `check` has found something."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the rows in the topic: exactly once by number; by key, or by nothing, at least once.

        By number it is at least once, too, where `check` has met a Broker that stores repeats, or none that said.
        """
        return promise_of(self.spec, drops_repeats=self._doubt is None).guarantee

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """Check that the Master answers and knows the topic, and that its Brokers keep what is asked for."""
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
                self._doubt = self._doubt_of(tube, options.topic) if is_by_number(self.spec) else None
        except TubeError as error:
            raise ConfigError(f"sink {self.spec.name}: {error.message}", hint=error.hint) from error
        if self._doubt is not None and self._asked_for:
            raise ConfigError(
                f"sink {self.spec.name}: {not_exactly_once(self._doubt)}",
                hint="leave `guarantee` out (readers with dedup=true then get each row once), or write to a topic "
                "on pytubemq Brokers",
            )

    @property
    def _asked_for(self) -> bool:
        return self.spec.guarantee is Guarantee.EXACTLY_ONCE

    def _doubt_of(self, tube: Tube, topic: str | None) -> str | None:
        """Return why a number may not count once; None if it does.

        Raises:
            TubeError: the cluster cannot be asked, and exactly once is required.
        """
        from pytubemq.errors import TubeError

        try:
            found = find_repeating_broker(tube, topic)
        except TubeError as error:
            if self._asked_for:
                raise
            return error.message
        return None if found is None else f"{found} is a Java Broker, which stores duplicates"

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Send the rows, each with what identifies it."""
        options = self._options(batch_id, context)

        def send(counted: DataFrame) -> None:
            counted.write.format("tubemq").mode("append").options(**options).save()

        messages = self._messages(rows)
        if "planIsMapOnly" in options:
            messages = self._numbered_alike(messages, context)
        return write_counted(messages, send)

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return None: a topic cannot be asked. The Broker drops a number that it has; readers' `dedup` drops keys."""
        return None

    def _options(self, batch_id: int, context: SinkContext) -> dict[str, str]:
        given = self.spec.options
        options = {key: resolve(value) for key, value in given.items() if key.lower() != IDEMPOTENT}
        options["master"] = resolve(self.spec.master or "")
        options |= user_options(self.spec)
        if self.spec.topic:
            options["topic"] = resolve(self.spec.topic)
        if not self._idempotent:
            return options
        options |= {
            IDEMPOTENT: "true",
            "queryId": f"{context.pipeline_id}/{self.spec.name}",
            "batchId": str(batch_id),
        }
        if context.checkpoint is not None:
            options["checkpointLocation"] = context.checkpoint
        if self.spec.idempotency_key:
            options["idempotencyKey"] = self.spec.idempotency_key
        else:
            options["planIsMapOnly"] = "true"
        return options

    def _numbered_alike(self, messages: DataFrame, context: SinkContext) -> DataFrame:
        """Order the messages so that a replay has each at the same place of the same Spark partition."""
        from pytubemq.spark.sink import in_fixed_order

        if not context.deterministic or not is_deterministic(messages):
            raise rows_differ(self.spec)
        if context.map_only and keeps_order(messages):
            return messages
        return in_fixed_order(messages, partitions=ORDERED_TASKS)

    def _messages(self, rows: DataFrame) -> DataFrame:
        if "body" in rows.columns:
            return rows
        own = [*self._routing(rows)]
        return rows.select(*map(quoted, own), json_of(rows.columns).alias("body"))

    def _routing(self, rows: DataFrame) -> list[str]:
        """Return the columns that say where a row goes, if their type can; the body has them as well.

        `partition` is none of them: rows that come from a topic have it, and it is the one that they came from.
        """
        from pytubemq.spark.sink.columns import BODY, DEFAULT_ID_COLUMN, PARTITION, TAKES

        own = {name: takes for name, takes in TAKES.items() if name not in {BODY, DEFAULT_ID_COLUMN, PARTITION}}
        return [
            field.name
            for field in rows.schema.fields
            if field.name == self.spec.idempotency_key
            or field.dataType.simpleString().partition("(")[0].partition(" collate")[0] in own.get(field.name, ())
        ]


def keeps_order(rows: DataFrame) -> bool:
    """True if the plan leaves each row in the task and at the place of the one that it is made of.

    It is judged by the plan as it is written, not from how Spark carries it out, which may differ the next time.
    """
    plan: Any = rows._jdf.queryExecution()
    waiting = [plan.analyzed()]
    while waiting:
        part = waiting.pop()
        children = part.children()
        if children.size() and str(part.nodeName()) not in _IN_ORDER:
            return False
        waiting.extend(children.apply(at) for at in range(children.size()))
    return True
