"""A store whose journal and logs hold known messages, and what is found in it later."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pytubemq.storage.store_settings import StoreSettings
from tests.unit.storage.helpers import ROOT, commit, open_store, payloads, send, send_pack

if TYPE_CHECKING:
    from pytubemq.storage.store.store import BrokerStore
    from pytubemq.testing.disk import FaultyDisk

SETTINGS = StoreSettings(reserve_bytes=0, journal_segment_bytes=30_000, journal_padding_bytes=0, segment_bytes=15_000)
JOURNAL = ROOT / "journal" / "00000000000000000001.journal"
COUNT = 300


def filled(disk: FaultyDisk, *, applied: int, count: int = COUNT) -> list[list[bytes]]:
    """A Broker that was killed: so many messages of `count` are in the logs, no checkpoint knows of any."""
    store = open_store(disk, SETTINGS)
    sent: list[list[bytes]] = [[], []]
    assert store.checkpoints == 1, "that of the very first start"
    rng = Random(1)
    for number in range(count):
        partition_id = number % 2
        body = b"%d " % number + rng.randbytes(rng.randrange(60, 140))
        if number % 10 == 9:
            send_pack(store, body, b"and", partition_id=partition_id)
            sent[partition_id] += [body, b"and"]
        else:
            send(store, body, partition_id=partition_id)
            sent[partition_id].append(body)
        if number == applied - 1:
            store.apply()
    assert store.checkpoints == 1, "that of the very first start"
    disk.kill()
    return sent


def found_in(store: BrokerStore) -> list[list[bytes]]:
    return [payloads(store, 0), payloads(store, 1)]


def confirmed(disk: FaultyDisk) -> None:
    """Confirm a position in the last block of the journal of a Broker that is then killed."""
    store = open_store(disk, SETTINGS)
    for number in range(COUNT):
        send(store, b"%d" % number * 40, partition_id=number % 2)
    staging = store.staging()
    staging.confirm("readers", "demo", 0, 28 * 5)
    commit(store, staging)
    send(store, b"after")
    store.apply()
    assert store.checkpoints == 1
    disk.kill()
