"""A data directory of the current format, kept as its version wrote it: what can be read today can be read tomorrow.

A change of the format that keeps its number fails here. One with a new number adds a file beside this one
(`python -m tests.unit.storage.store.test_golden_directory`), and says what becomes of the older.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.format.header import VERSION
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import SMALL, open_store, payloads, send, send_pack

GOLDEN = Path(__file__).parents[3] / f"vectors/store-v{VERSION}.json"
SENT = {
    0: [b"%d" % number * 300 for number in range(8)] + [b"in the journal alone"],
    1: [b"pack a", b"pack b"],
}


def written() -> dict[str, str]:
    """Return the files of a store after a checkpoint, a pack and a kill."""
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    for payload in SENT[0][:-1]:
        send(store, payload, confirm=3 * OFFSET_UNIT)
        store.apply()
    send_pack(store, *SENT[1], partition_id=1)
    store.checkpoint()
    send(store, SENT[0][-1])
    disk.kill()
    return {str(path): base64.b64encode(zlib.compress(disk.content(path), 9)).decode() for path in disk.files()}


def test_what_this_version_wrote_is_read_and_goes_on() -> None:
    disk = FaultyDisk()
    for name, text in json.loads(GOLDEN.read_text("utf-8")).items():
        disk.makedirs(Path(name).parent)
        disk.put(Path(name), zlib.decompress(base64.b64decode(text)))
    store = open_store(disk, SMALL)
    assert {partition_id: payloads(store, partition_id) for partition_id in SENT} == SENT
    assert store.confirmed("g", "demo", 0) == 3 * OFFSET_UNIT
    [appended] = send(store, b"next")
    assert appended.offset == len(SENT[0]) * OFFSET_UNIT
    store.close()
    assert payloads(open_store(disk, SMALL))[-1] == b"next"


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(written(), indent=1, sort_keys=True) + "\n", "utf-8")
