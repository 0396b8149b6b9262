"""Puts `messages` messages into a topic with confluent-kafka, and waits until all are acknowledged."""

import os

from confluent_kafka import Producer
from window import report, spec  # found beside this file: it runs as a script


def main(given):
    """Every message's report is looked at."""
    failed = []
    producer = Producer({"bootstrap.servers": given["server"], "acks": "all"})
    body = os.urandom(given["size_bytes"])
    for _ in range(given["messages"]):
        while True:
            try:
                producer.produce(given["topics"][0], body, on_delivery=lambda error, _: error and failed.append(error))
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    left = producer.flush(120)
    if failed or left:
        raise SystemExit(f"{len(failed)} messages failed, {left} were not sent: {failed[:1]}")
    return {"messages": given["messages"]}


if __name__ == "__main__":
    report(main(spec()))
