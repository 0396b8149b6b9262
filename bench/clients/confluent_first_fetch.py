"""Reads the first message of a topic as soon as Kafka gives it, and says at what time (`time.monotonic`) it came."""

import time

from confluent_kafka import Consumer, TopicPartition

from bench.clients.window import Result, Spec, report, spec


def main(given: Spec) -> Result:
    """Without a group: partition 0 from its beginning."""
    consumer = Consumer({
        "bootstrap.servers": given["server"], "group.id": "first", "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100, "topic.metadata.refresh.fast.interval.ms": 50,
    })  # fmt: skip
    consumer.assign([TopicPartition(given["topic"], 0, 0)])
    deadline_s = time.monotonic() + given["timeout_s"]
    while time.monotonic() < deadline_s:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            return {"at_s": time.monotonic(), "messages": 1}
    raise SystemExit("nothing came")


if __name__ == "__main__":
    report(main(spec()))
