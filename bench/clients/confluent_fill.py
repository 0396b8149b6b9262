"""Puts `messages` messages into a topic with confluent-kafka, and waits until all are acknowledged."""

import os

from confluent_kafka import Producer

from bench.clients.window import Result, Spec, report, spec


def main(given: Spec) -> Result:
    """Every message's report is looked at."""
    failed: list[object] = []

    def on_delivery(error: object, _message: object) -> None:
        if error:
            failed.append(error)

    producer = Producer({"bootstrap.servers": given["server"], "acks": "all"})
    body = os.urandom(given["size_bytes"])
    for _ in range(given["messages"]):
        while True:
            try:
                producer.produce(given["topics"][0], body, on_delivery=on_delivery)
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
