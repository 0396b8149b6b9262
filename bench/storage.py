"""How fast the store alone is: messages a second into the journal, and out of memory into partition logs.

    python bench/storage.py [--size 1024] [--messages 100000] [--partitions 8] [--directory DIR]

Prints one JSON object. `accept` is prepare + write + publish in one thread, every batch flushed to the device;
`prepare_us` is the share that runs on the event loop, staging included.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from pytubemq.model.durability import Durability
from pytubemq.storage.store import BrokerStore, StoreSettings

TOPIC = "bench"


def accept(store: BrokerStore, *, batch: int, total: int, payload: bytes, partitions: int) -> dict[str, float]:
    """Push `total` messages through in batches; returns rates."""
    loop_s = 0.0
    started = time.perf_counter()
    for first in range(0, total, batch):
        begun = time.perf_counter()
        staging = store.staging()
        for number in range(first, first + batch):
            staging.append(TOPIC, number % partitions, payload, 0, -1)
        prepared = store.prepare(staging, time.time_ns() // 1_000_000)
        loop_s += time.perf_counter() - begun
        store.write(prepared)
        store.publish(prepared)
    elapsed = time.perf_counter() - started
    return {"messages_per_s": round(total / elapsed), "prepare_us": round(loop_s / total * 1e6, 2)}


def read_all(store: BrokerStore, partitions: int) -> float:
    """Messages a second read from the logs in slices of 1 MiB."""
    count = 0
    started = time.perf_counter()
    for partition_id in range(partitions):
        offset, end = store.ends(TOPIC, partition_id)
        while offset < end:
            piece = store.read(TOPIC, partition_id, offset, max_bytes=1 << 20, max_messages=100_000)
            offset, count = piece.next_offset, count + piece.count
    return round(count / (time.perf_counter() - started))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024, help="payload bytes")
    parser.add_argument("--messages", type=int, default=100_000, help="per measurement; a batch of 1 sends a fiftieth")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--directory", type=Path, help="where to write; default a temporary directory")
    options = parser.parse_args()
    payload = b"x" * options.size
    result: dict[str, object] = {"size": options.size, "partitions": options.partitions}
    for durability in Durability:
        with tempfile.TemporaryDirectory(dir=options.directory) as root:
            store = BrokerStore.open(Path(root), settings=StoreSettings(durability=durability))
            for partition_id in range(options.partitions):
                store.ensure_partition(TOPIC, partition_id)
            rates: dict[str, object] = {}
            for batch in (1, 100, 1000):
                total = options.messages if batch > 1 else max(1, options.messages // 50)
                rates[f"accept_{batch}"] = accept(
                    store, batch=batch, total=total - total % batch, payload=payload, partitions=options.partitions
                )
            started, waiting = time.perf_counter(), store.unapplied_bytes
            store.apply()
            rates["apply_mib_per_s"] = round(waiting / (time.perf_counter() - started) / (1 << 20))
            rates["read_messages_per_s"] = read_all(store, options.partitions)
            started = time.perf_counter()
            store.close()
            rates["close_s"] = round(time.perf_counter() - started, 3)
            result[durability.value] = rates
    print(json.dumps(result))


if __name__ == "__main__":
    main()
