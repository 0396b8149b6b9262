"""Kafka, by Spark's own connector: at least once, for its producer has no transactions in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.guarantees import promise_of
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.sinks.json_text import json_of
from pytubemq.pipelines.sinks.kafka.kind import PACKAGE, SERVERS
from pytubemq.pipelines.sinks.rows import write_counted
from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.sinks.sink_writer import SinkContext, SinkWriter

REACH_MS: Final = 10_000
AUTO_CREATE: Final = "auto.create.topics.enable"
"""The brokers' setting that makes a topic when the first message for it comes."""
OWN: Final = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
"""Columns that Spark's connector takes, and of which types; it skips all others."""


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of a sink."""
    return KafkaSink(spec)


class KafkaSink:
    """The sink `kafka`: rows that are Kafka's own columns go as they are, others as one JSON object each."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self.guarantee = promise_of(spec).guarantee
        self._options = {key: resolve(value) for key, value in spec.options.items()}
        if spec.topic:
            self._options["topic"] = resolve(spec.topic)

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """Check that the connector is there, that a broker answers, and that the topic is there or will come to be.

        Where it may not be asked whether brokers make topics, they are taken to.
        """
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            admin = self._admin(spark)
        except Py4JJavaError as error:
            raise self._unreachable(str(error.java_exception.getMessage())) from error
        except (Py4JError, TypeError) as error:
            raise ConfigError(
                f"sink {self.spec.name}: the Spark session has no Kafka connector",
                hint=f"add to the pipeline's spark: packages: [{PACKAGE}]",
            ) from error
        jvm: Any = spark.sparkContext._jvm
        try:
            there = admin.listTopics().names().get(REACH_MS, jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
            topic = self._options.get("topic")
            if topic is not None and not there.contains(topic) and not makes_topics(admin, jvm):
                raise ConfigError(
                    f"sink {self.spec.name}: the topic {topic} does not exist, and the brokers do not create "
                    "topics automatically",
                    hint="create it, or correct the name",
                )
        except Py4JJavaError as error:
            raise self._unreachable(str(error.java_exception)) from error
        finally:
            admin.close(jvm.java.time.Duration.ofSeconds(1))

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Send the rows; Spark's connector waits for the acknowledgements."""
        messages = self._messages(rows)
        return write_counted(messages, lambda counted: counted.write.format("kafka").options(**self._options).save())

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return None: Kafka cannot say."""
        return None

    def _messages(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        if is_kafka_s_own(rows.schema, self.spec.keys):
            return rows
        columns = [json_of(rows.columns).alias("value")]
        if len(self.spec.keys) == 1:
            columns.append(f.col(quoted(self.spec.keys[0])).cast("string").alias("key"))
        elif self.spec.keys:
            columns.append(json_of(self.spec.keys).alias("key"))
        if "topic" not in self._options:
            columns.append(f.col("topic"))
        return rows.select(*columns)

    def _admin(self, spark: SparkSession) -> Any:
        jvm: Any = spark.sparkContext._jvm
        conf = jvm.java.util.HashMap()
        for key, value in self._options.items():
            if key.startswith("kafka."):
                conf.put(key.removeprefix("kafka."), value)
        conf.put("default.api.timeout.ms", str(REACH_MS))
        conf.put("request.timeout.ms", str(REACH_MS // 2))
        return jvm.org.apache.kafka.clients.admin.Admin.create(conf)

    def _unreachable(self, why: str) -> ConfigError:
        return ConfigError(
            f"sink {self.spec.name}: no Kafka broker responds at {self._options[SERVERS]}: {why}",
            hint=f"check that {SERVERS} is right and reachable from here and from every executor",
        )


def makes_topics(admin: Any, jvm: Any) -> bool:
    """True if brokers make a topic when the first message for it comes, or do not say."""
    from py4j.protocol import Py4JJavaError

    resource = jvm.org.apache.kafka.common.config.ConfigResource
    wait = (REACH_MS, jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
    try:
        nodes = admin.describeCluster().nodes().get(*wait)
        broker = resource(resource.Type.BROKER, str(nodes.iterator().next().id()))
        asked = jvm.java.util.Collections.singletonList(broker)
        entry = admin.describeConfigs(asked).all().get(*wait).get(broker).get(AUTO_CREATE)
    except Py4JJavaError:
        return True
    return entry is None or str(entry.value()).lower() != "false"


def is_kafka_s_own(rows: StructType, keys: Sequence[str]) -> bool:
    """True if rows are messages as Spark's connector takes them: a `value`, and nothing that it would skip."""
    if "value" not in rows.names or tuple(keys) not in {(), ("key",)}:
        return False
    return all(field.dataType.simpleString() in OWN.get(field.name, ()) for field in rows)
