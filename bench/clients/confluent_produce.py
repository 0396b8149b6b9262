"""confluent-kafka's producer at work: acks=all, no flush at the Broker, everything else as it comes.

Ways: `one` calls `produce` per message, `many` calls `produce_batch` with `chunk` messages. Neither asks for a callback
per message: what is not acknowledged yet is the length of the producer, and a failure shows in `error_cb`. `sync` waits
for each message.
"""

import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Producer

from bench.clients.window import Result, Spec, Window, percentiles, report, spec

LOOK_EVERY = 1_000
"""Messages between two looks at the clock."""


@dataclass
class State:
    """What was sent so far, and how long each message took where each is waited for."""

    sent: int = 0
    latencies: list[float] = field(default_factory=list)


def main(given: Spec) -> Result:
    """Warm up, measure, leave."""
    errors: list[object] = []
    producer = Producer({
        "bootstrap.servers": given["server"],
        "acks": "all",
        "error_cb": errors.append,
        **({"linger.ms": 0} if given["way"] == "sync" else {}),
        **given.get("config", {}),
    })  # fmt: skip
    state = State()
    step = {"one": one, "many": many, "sync": sync}[given["way"]](producer, given, state)
    window = Window(given.get("pids"))
    run_until(step, given["warm_s"])
    state.latencies.clear()
    window.open(state.sent - len(producer))
    run_until(step, given["measure_s"])
    found = window.close(state.sent - len(producer))
    producer.purge()
    producer.flush(10)
    return {**found, "failed": len(errors), "latency_ms": percentiles(state.latencies)}


def run_until(step: Iterator[None], seconds: float) -> None:
    """Advance for so long."""
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        next(step)


def one(producer: Producer, given: Spec, state: State) -> Iterator[None]:
    """Message by message, to the topics in turn."""
    body, turns = os.urandom(given["size_bytes"]), itertools.cycle(given["topics"])
    while True:
        for _ in range(LOOK_EVERY):
            topic = next(turns)
            while True:
                try:
                    producer.produce(topic, body)
                    break
                except BufferError:
                    producer.poll(0.001)
                    yield
            state.sent += 1
        producer.poll(0)
        yield


def many(producer: Producer, given: Spec, state: State) -> Iterator[None]:
    """Lists of messages, to the topics in turn."""
    body, turns = os.urandom(given["size_bytes"]), itertools.cycle(given["topics"])
    while True:
        topic = next(turns)
        left = given["chunk"]
        while left:
            queued = producer.produce_batch(topic, [{"value": body} for _ in range(left)])
            left -= queued
            state.sent += queued
            producer.poll(0.001 if left else 0)
            yield


def sync(producer: Producer, given: Spec, state: State) -> Iterator[None]:
    """One after the other."""
    body, turns = os.urandom(given["size_bytes"]), itertools.cycle(given["topics"])
    while True:
        begun_s = time.perf_counter()
        producer.produce(next(turns), body)
        state.sent += 1
        producer.flush(10)
        state.latencies.append(time.perf_counter() - begun_s)
        yield


if __name__ == "__main__":
    report(main(spec()))
