"""How fast partitions are read from the disk's cache: sequentially, with filter codes, from anywhere, and by time.

    python bench/reading.py [--size 100] [--pack 1000] [--mib 256] [--directory DIR]

Prints one JSON object: for packs and for single messages, without and with `check_on_read`, the bytes and messages a
second that reads of 1 MiB and of 64 KiB give out, all of them and every third by its code; and the microseconds that a
read of one record somewhere costs, and a look for a time.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from pytubemq.model.durability import Durability
from pytubemq.model.limits import MAX_FETCH_MESSAGES, MIB
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.wire.batch.record_batch import encode_columns, read_columns

TOPIC = "bench"
START_MS = 1_790_000_000_000
LOOKS = 500
BLOCK_BYTES = 2 * MIB


def fill(store: BrokerStore, *, size: int, pack: int, total: int) -> None:
    """A partition of so many bytes of payloads; each third record has filter code 1, time goes on by 1 ms a block."""
    store.ensure_partition(TOPIC, 0)
    payload = b"x" * size
    packs = [read_columns(encode_columns([payload] * pack, 0, code)) for code in (0, 1)] if pack else []
    done = blocks = records = 0
    while done < total:
        staging = store.staging()
        while staging.size_bytes < BLOCK_BYTES:
            records += 1
            if pack:
                staging.append_batch(TOPIC, 0, packs[records % 3 == 0])
            else:
                staging.append(TOPIC, 0, payload, 0, int(records % 3 == 0))
        done += staging.size_bytes
        prepared = store.prepare(staging, START_MS + blocks)
        store.write(prepared)
        store.publish(prepared)
        blocks += 1
        if store.unapplied_bytes > 32 * MIB:
            store.apply()
    store.checkpoint()


def read_all(store: BrokerStore, *, max_bytes: int, codes: frozenset[int] | None) -> dict[str, float]:
    """All of it, from the first message to the last."""
    offset, end = store.ends(TOPIC, 0)
    size = count = calls = 0
    started = time.perf_counter()
    while offset < end:
        piece = store.read(TOPIC, 0, offset, max_bytes=max_bytes, max_messages=MAX_FETCH_MESSAGES, codes=codes)
        offset = piece.next_offset
        size, count, calls = size + piece.payload_bytes, count + piece.count, calls + 1
    elapsed = time.perf_counter() - started
    return {
        "mib_per_s": round(size / elapsed / MIB),
        "messages_per_s": round(count / elapsed),
        "us_per_read": round(elapsed / calls * 1e6, 1),
    }


def looks(store: BrokerStore) -> dict[str, float]:
    """Reads of one record at random places, and looks for random times."""
    rng = random.Random(1)
    end = store.ends(TOPIC, 0)[1] // OFFSET_UNIT
    started = time.perf_counter()
    for _ in range(LOOKS):
        store.read(TOPIC, 0, rng.randrange(end) * OFFSET_UNIT, max_bytes=1, max_messages=1)
    between = time.perf_counter()
    for _ in range(LOOKS):
        store.offset_at(TOPIC, 0, START_MS + rng.randrange(100))
    ended = time.perf_counter()
    return {
        "us_per_read_anywhere": round((between - started) / LOOKS * 1e6, 1),
        "us_per_look_for_a_time": round((ended - between) / LOOKS * 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100, help="payload bytes of a message")
    parser.add_argument("--pack", type=int, default=1000, help="messages of a pack")
    parser.add_argument("--mib", type=int, default=256, help="MiB of payloads; of single messages a quarter")
    parser.add_argument("--directory", type=Path, help="where to write; default a temporary directory")
    options = parser.parse_args()
    result: dict[str, object] = {"size": options.size, "pack": options.pack}
    for name, pack, total in (("packs", options.pack, options.mib * MIB), ("singles", 0, options.mib * MIB // 4)):
        with tempfile.TemporaryDirectory(dir=options.directory) as root:
            for check in (False, True):
                settings = StoreSettings(durability=Durability.PROCESS, check_on_read=check, check_packs_on_read=check)
                store = BrokerStore.open(Path(root), settings=settings)
                if not check:
                    fill(store, size=options.size, pack=pack, total=total)
                figures: dict[str, object] = {}
                for codes in (None, frozenset({1})):
                    for max_bytes in (MIB, 64 * 1024):
                        key = f"{'all' if codes is None else 'third'}_{max_bytes // 1024}_kib"
                        figures[key] = read_all(store, max_bytes=max_bytes, codes=codes)
                result[f"{name}_checked" if check else name] = figures | looks(store)
                store.close()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
