"""Dead letters in a topic, which takes them whatever a bad record holds.

The invariant: nothing that a record holds decides where its dead letter goes or whether it can be written, so a bad
record never stops a pipeline; each dead letter is kept whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.sinks.json_text import json_of
from pytubemq.pipelines.sinks.sink_factory import sink_writer
from pytubemq.pipelines.sinks.tubemq.writer import TubeMqSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Guarantee, Sink
    from pytubemq.pipelines.sinks.sink_writer import SinkContext, SinkWriter

LONGEST_BYTES: Final = 1_000_000
"""Of a dead letter in a topic: each takes messages of 1 MiB, and what identifies the message needs room, too."""


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of dead letters."""
    return TopicDeadLetterWriter(spec)


class TopicDeadLetterWriter:
    """Dead letters in a topic, each as one JSON object, and in files beside the state those that are too long for it.

    Their columns `topic` and `attributes` describe the record. As columns of a message they would say where it goes and
    what it is, so there is none but `body`.
    """

    def __init__(self, spec: Sink) -> None:
        """Create the writer; those that are too long go to `spec.path`."""
        self.spec = spec
        self._topic = TubeMqSink(spec)
        self._files = sink_writer(replace(spec, format="parquet", options={}))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the topic: the files keep each row once."""
        return self._topic.guarantee

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """Check that the Master knows the topic, and that files can be made."""
        from pyspark.sql.types import StringType, StructField, StructType

        self._topic.check(spark, StructType([StructField("body", StringType())]))
        self._files.check(spark, schema)

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Send what fits; write the rest into the batch's directory, if there is any."""
        from pyspark.sql import functions as f

        as_json = json_of(rows.columns)
        fits = f.octet_length(as_json) <= LONGEST_BYTES
        written = 0
        too_long = rows.where(~fits)
        if not too_long.isEmpty():
            written = self._files.write(too_long, batch_id, context)
        return written + self._topic.write(rows.where(fits).select(as_json.alias("body")), batch_id, context)

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return None: a topic cannot be asked."""
        return None
