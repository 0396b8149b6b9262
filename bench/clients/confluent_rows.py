"""Puts `messages` different messages into a topic with confluent-kafka, and waits until all are acknowledged."""

from bodies import Bodies  # found beside this file: it runs as a script
from confluent_kafka import Producer
from window import report, spec

CHUNK = 256


def main(given):
    """Every message's report is looked at."""
    failed = []
    producer = Producer({"bootstrap.servers": given["server"], "acks": "all", "linger.ms": 20})
    bodies, left = Bodies(given["size_bytes"]), given["messages"]
    while left:
        many = bodies.take(min(CHUNK, left))
        left -= len(many)
        for body in many:
            while True:
                try:
                    producer.produce(given["topic"], body, on_delivery=lambda error, _: error and failed.append(error))
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
