"""confluent-kafka's consumer at work: as `ours_consume`. It commits by itself in the background, its default."""

import time

from confluent_kafka import Consumer

from bench.clients.window import Result, Spec, Window, report, spec

STALL_S = 30.0


def main(given: Spec) -> Result:
    """Read as a new group."""
    wanted, skip = given["messages"], given["messages"] // 10
    got = size = 0
    window: Window | None = None
    asked_s = last_s = time.perf_counter()
    first_s = 0.0
    consumer = Consumer({
        "bootstrap.servers": given["server"], "group.id": given["group"], "auto.offset.reset": "earliest",
        **given.get("config", {}),
    })  # fmt: skip
    consumer.subscribe([given["topic"]])
    while got < wanted:
        batch = consumer.consume(5_000, timeout=0.2)
        now_s = time.perf_counter()
        if not batch:
            if now_s - last_s > STALL_S:
                raise SystemExit(f"only {got} of {wanted} messages came")
            continue
        last_s = now_s
        first_s = first_s or now_s - asked_s
        for message in batch:
            size += len(message.value())
        got += len(batch)
        if window is None and got >= skip:
            window = Window(given.get("pids"))
            window.open(got)
    assert window is not None, "the first tenth is less than all"
    found = window.close(got)
    consumer.close()
    return {**found, "bytes": size, "first_s": round(first_s, 3)}


if __name__ == "__main__":
    report(main(spec()))
