"""How fast the store alone is: messages a second into the journal, and out of memory into partition logs.

    python bench/storage.py [--size 1024] [--messages 100000] [--partitions 8] [--directory DIR]
    python bench/storage.py --wide [--topics 1000] [--partitions 10] [--size 100] [--pack 100] [--seconds 10]

Prints one JSON object. The first form measures each durability: `accept` is prepare + write + publish in one thread,
`prepare_us` is the share of it that runs on the event loop, staging included. The second one compares one topic with
many, as packs and as single messages, with a second thread that moves messages into the partitions' logs as a Broker
does; p50 and p99 are those of a block's write, in ms.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.model.durability import Durability
from pytubemq.model.limits import MAX_UNAPPLIED_BYTES, MIB
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.wire.batch.record_batch import encode_columns, read_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.storage.journal.staging import Staging

TOPIC = "bench"
BLOCK_BYTES = 4 * MIB
"""What a Broker writes together at most."""
OPEN_FILES = 4096
IDLE_S = 0.5


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def accept(store: BrokerStore, *, batch: int, total: int, payload: bytes, partitions: int) -> dict[str, float]:
    """Push `total` messages through in batches; returns rates."""
    loop_s = 0.0
    writes: list[float] = []
    started = time.perf_counter()
    for first in range(0, total, batch):
        begun = time.perf_counter()
        staging = store.staging()
        for number in range(first, first + batch):
            staging.append(TOPIC, number % partitions, payload, 0, -1)
        prepared = store.prepare(staging, now_ms())
        ready = time.perf_counter()
        loop_s += ready - begun
        store.write(prepared)
        writes.append(time.perf_counter() - ready)
        store.publish(prepared)
    elapsed = time.perf_counter() - started
    writes.sort()
    return {
        "messages_per_s": round(total / elapsed),
        "prepare_us": round(loop_s / total * 1e6, 2),
        "write_p50_us": round(writes[len(writes) // 2] * 1e6),
    }


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


def narrow(options: argparse.Namespace) -> dict[str, object]:
    """Each durability by itself."""
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
            rates["apply_mib_per_s"] = round(waiting / (time.perf_counter() - started) / MIB)
            rates["read_messages_per_s"] = read_all(store, options.partitions)
            started = time.perf_counter()
            store.close()
            rates["close_s"] = round(time.perf_counter() - started, 3)
            result[durability.value] = rates
    return result


class Applying:
    """Moves messages into the logs on a thread of its own while the block runs, as a Broker does."""

    def __init__(self, store: BrokerStore) -> None:
        self._store = store
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Applying:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join()

    def record_write(self) -> None:
        """A block was written; waits while too much is in memory."""
        if self._store.worth_applying:
            self._wake.set()
        while self._store.unapplied_bytes > MAX_UNAPPLIED_BYTES:
            time.sleep(0.001)

    def _run(self) -> None:
        pause_s = IDLE_S
        while not self._stop.is_set():
            self._wake.wait(pause_s)
            self._wake.clear()
            begun = time.perf_counter()
            self._store.apply()
            pause_s = max(IDLE_S, 10 * (time.perf_counter() - begun))


def drive(store: BrokerStore, stage: Callable[[Staging, int], int], *, seconds: float) -> dict[str, float]:
    """Blocks of BLOCK_BYTES for so long; `stage` stages item number n and returns its messages."""
    messages = item = 0
    writes: list[float] = []
    with Applying(store) as applying:
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            staging = store.staging()
            while staging.size_bytes < BLOCK_BYTES:
                messages += stage(staging, item)
                item += 1
            prepared = store.prepare(staging, now_ms())
            written = time.perf_counter()
            store.write(prepared)
            writes.append(time.perf_counter() - written)
            store.publish(prepared)
            applying.record_write()
        elapsed = time.perf_counter() - started
    writes.sort()
    return {
        "messages_per_s": round(messages / elapsed),
        "write_p50_ms": round(writes[len(writes) // 2] * 1e3, 2),
        "write_p99_ms": round(writes[len(writes) * 99 // 100] * 1e3, 2),
        "checkpoints": store.checkpoints,
        "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def wide(options: argparse.Namespace) -> dict[str, object]:
    """One topic against many."""
    body = b"x" * options.size
    pack = read_columns(encode_columns([body] * options.pack, 0, -1))
    result: dict[str, object] = {"size": options.size, "pack": options.pack}
    for topics in (1, options.topics):
        places = [(f"t{topic}", partition) for topic in range(topics) for partition in range(options.partitions)]

        def add_pack(staging: Staging, item: int, places: list[tuple[str, int]] = places) -> int:
            staging.append_batch(*places[item % len(places)], pack)
            return pack.count

        def add_message(staging: Staging, item: int, places: list[tuple[str, int]] = places) -> int:
            staging.append(*places[item % len(places)], body, 0, -1)
            return 1

        for name, stage in (("packs", add_pack), ("singles", add_message)):
            with tempfile.TemporaryDirectory(dir=options.directory) as root:
                store = BrokerStore.open(Path(root), settings=StoreSettings(max_open_files=OPEN_FILES))
                for place in places:
                    store.ensure_partition(*place)
                result[f"{name}_{topics}x{options.partitions}"] = drive(store, stage, seconds=options.seconds)
                store.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, help="payload bytes; default 1024, with --wide 100")
    parser.add_argument("--messages", type=int, default=100_000, help="per measurement; a batch of 1 sends a fiftieth")
    parser.add_argument("--partitions", type=int, help="of each topic; default 8, with --wide 10")
    parser.add_argument("--wide", action="store_true", help="compare one topic with many")
    parser.add_argument("--topics", type=int, default=1000, help="with --wide")
    parser.add_argument("--pack", type=int, default=100, help="messages of a pack, with --wide")
    parser.add_argument("--seconds", type=float, default=10.0, help="per measurement, with --wide")
    parser.add_argument("--directory", type=Path, help="where to write; default a temporary directory")
    options = parser.parse_args()
    options.size = options.size or (100 if options.wide else 1024)
    options.partitions = options.partitions or (10 if options.wide else 8)
    print(json.dumps(wide(options) if options.wide else narrow(options)))


if __name__ == "__main__":
    main()
