"""confluent-kafka: sends `rate` messages a second, each beginning with the time at which it was sent, until a file is
there."""

import os
import struct
import time

from confluent_kafka import Producer

from bench.clients.window import Result, Spec, report, spec

STAMP = struct.Struct(">q")
LOOK_EVERY = 100


def main(given: Spec) -> Result:
    """What is late is sent at once, not left out."""
    filler, period_s, late_s, number = os.urandom(given["size_bytes"] - STAMP.size), 1 / given["rate"], 0.0, 0
    producer = Producer({"bootstrap.servers": given["server"], "acks": "all"})
    start_s = time.perf_counter()
    while number % LOOK_EVERY or not os.path.exists(given["until"]):
        wait_s = start_s + number * period_s - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        late_s = max(late_s, -wait_s)
        producer.produce(given["topic"], STAMP.pack(time.time_ns() // 1000) + filler, partition=number % 4)
        producer.poll(0)
        number += 1
    producer.flush(60)
    return {"messages": number, "late_ms": round(late_s * 1000, 2)}


if __name__ == "__main__":
    report(main(spec()))
