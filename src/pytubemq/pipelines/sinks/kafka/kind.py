"""The kind of the Kafka sink: a topic of a Kafka cluster, by Spark's own connector."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.key import Key, Kind
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.file.sink_kind import Promise, SinkKind, Wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.model import Sink

PACKAGE: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
SERVERS: Final = "kafka.bootstrap.servers"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _wrong(sink: Sink) -> Iterator[Wrong]:
    if SERVERS not in sink.options:
        text = f"of format kafka needs options.{SERVERS}"
        yield Wrong("", text, f'as {{{SERVERS}: "host:9092"}}', code=FaultCode.SINK_LACKS_KEY)
    for name, value in sink.options.items():
        if name.lower() == "kafka.acks" and value.strip() == "0":
            text = "0 waits for no broker, so rows can be lost unnoticed"
            hint = "delete it, then all in-sync replicas confirm; or use 1"
            yield Wrong(f"options.{name}", text, hint, code=FaultCode.SINK_OPTION)
    topic = sink.topic or ""
    if topic and "${" not in topic and (not _TOPIC.fullmatch(topic) or topic in {".", ".."}):
        hint = "use letters, digits, '.', _ or -, at most 249"
        yield Wrong("topic", f"{topic!r} cannot be the name of a Kafka topic", hint)


KIND: Final = SinkKind(
    name="kafka",
    keys=(
        Key(
            "topic",
            Kind.TEXT,
            "the topic of rows that have no column `topic`; without a column `value` they go as JSON",
        ),
        Key("keys", Kind.TEXTS, "the columns of the message's key"),
    ),
    promises={
        "": Promise(Guarantee.AT_LEAST_ONCE, "Spark's Kafka sink has no transactions: a replay sends the batch again"),
    },
    wrong=_wrong,
    key_of_option={"topic": "topic"},
    is_shared=True,
    again="rows are sent again",
    packages=(PACKAGE,),
    template="""
sinks:
  - name: lake
    format: kafka
    topic: {name}                          # rows go as JSON, unless they have a column `value`
    guarantee: at_least_once               # what Spark's Kafka sink gives
    options:
      kafka.bootstrap.servers: 127.0.0.1:9092

spark:
  packages: [{packages}]
""",
)
