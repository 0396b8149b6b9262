"""The cost of a replay: checkpoints that come sooner for many partitions, and files that are not made twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytubemq.storage.journal import checkpoints
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import ROOMY, SMALL, commit, open_store, payloads, send


@pytest.mark.parametrize(("partitions", "made"), [(4, 0), (200, 1)])
def test_messages_in_many_partitions_bring_a_checkpoint_sooner(
    partitions: int, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "monotonic", lambda: 0.0)  # a checkpoint takes no time, and none rests after it
    disk = FaultyDisk()
    settings = replace(ROOMY, replay_s=0.01)
    store = open_store(disk, settings, partitions=partitions)
    before = store.checkpoints
    staging = store.staging()
    for at in range(200):
        staging.append("demo", at % partitions, b"x", 0, -1)
    commit(store, staging)
    store.apply()
    assert store.checkpoints - before == made
    disk.kill()
    again = open_store(disk, settings, partitions=partitions)
    assert again.stats.replayed_messages == (0 if made else 200)
    assert sum(again.ends("demo", partition_id)[1] for partition_id in range(partitions)) == 28 * 200


@pytest.mark.parametrize("power_loss", [False, True])
def test_files_that_the_replay_writes_again_are_not_removed_before(power_loss: bool) -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    roomy = replace(SMALL, checkpoint_bytes=1 << 30, journal_segment_bytes=1 << 20)
    store.close()
    store = open_store(disk, roomy)
    sent = [b"%03d" % number * 20 for number in range(60)]
    for first in range(0, 60, 10):
        send(store, *sent[first : first + 10])
        store.apply()
    logs = [path for path in disk.files() if path.suffix in (".log", ".index")]
    assert len(logs) > 2, "the partition has several segments, of which the first alone stays"
    (disk.crash if power_loss else disk.kill)()
    is_there = {path for path in disk.files() if path.suffix in (".log", ".index")}
    store = open_store(disk, roomy)
    stayed = {path for path in disk.files() if path.suffix in (".log", ".index")}
    assert stayed == {path for path in is_there if not int(path.stem)}
    assert payloads(store) == sent, "read from memory: nothing is in the logs yet"
    # Killed again before anything is written, and then written: both times all is there.
    disk.kill()
    store = open_store(disk, roomy)
    store.apply()
    assert payloads(store) == sent
    store.close()
    disk.crash()
    assert payloads(open_store(disk, roomy)) == sent


def test_files_of_a_partition_that_the_journal_does_not_name_are_removed() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a")
    store.close()
    held = {path: disk.content(path) for path in disk.files()}
    # What is left of a topic that was removed, or of a power loss: no checkpoint and no block speaks of it.
    for path in [path for path in held if path.parent.name == "0"]:
        other = path.parent.parent.parent / "gone" / "0" / path.name
        disk.makedirs(other.parent)
        disk.put(other, held[path])
    disk.kill()
    assert payloads(open_store(disk)) == [b"a"]
    assert not [path for path in disk.files() if "gone" in path.parts]
