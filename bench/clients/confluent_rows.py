"""Puts `messages` different messages into a topic with confluent-kafka, and waits until all are acknowledged."""

from confluent_kafka import Producer

from bench.clients.bodies import Bodies
from bench.clients.window import Result, Spec, report, spec

CHUNK = 256


def main(given: Spec) -> Result:
    """Every message's report is looked at."""
    failed: list[object] = []

    def on_delivery(error: object, _message: object) -> None:
        if error:
            failed.append(error)

    producer = Producer({"bootstrap.servers": given["server"], "acks": "all", "linger.ms": 20})
    bodies, left = Bodies(given["size_bytes"]), given["messages"]
    while left:
        many = bodies.take(min(CHUNK, left))
        left -= len(many)
        for body in many:
            while True:
                try:
                    producer.produce(given["topic"], body, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    unsent = producer.flush(120)
    if failed or unsent:
        raise SystemExit(f"{len(failed)} messages failed, {unsent} were not sent: {failed[:1]}")
    return {"messages": given["messages"]}


if __name__ == "__main__":
    report(main(spec()))
