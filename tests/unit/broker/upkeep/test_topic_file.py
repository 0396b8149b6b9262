"""The Master's configuration on disk: proven as a whole, or set aside and named."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import msgspec
import pytest

from pytubemq.broker.topics import MasterConfig
from pytubemq.broker.upkeep.stored_topics import StoredTopics
from pytubemq.broker.upkeep.topic_file import TopicFile, encode
from pytubemq.errors import NewerVersionError
from pytubemq.storage.disk.sealed_file import seal
from pytubemq.testing.disk import FaultyDisk, Operation

DEFAULT = "3:true:true:1000:10000: :delete,168h:1:0:3:10:20000"
ROOT = Path("/data/broker-1")
FILE = ROOT / "topics.json"


def config(*topics: str) -> MasterConfig:
    confs = tuple(f"{topic}: : : : : : : : :0: : : : : " for topic in topics)
    return MasterConfig(conf_id=7, check_sum=9, default_conf=DEFAULT, topic_confs=confs)


def unchecked(config: MasterConfig) -> bytes:
    """The file as the version before the check wrote it."""
    return msgspec.json.encode({"version": 1, **msgspec.structs.asdict(config)})


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk()
    disk.makedirs(ROOT)
    for directory in (Path("/"), ROOT.parent, ROOT):
        disk.fsync_dir(directory)
    return disk


def test_what_was_saved_is_there_after_a_crash(disk: FaultyDisk) -> None:
    file = TopicFile.open(disk, ROOT)
    assert (file.config, file.loss) == (MasterConfig(), None)
    file.save(config("demo"))
    file.save(config("other"))
    disk.crash()
    assert TopicFile.open(disk, ROOT).config == config("other")
    assert [text[:5] for text in json.loads(disk.content(FILE))["topic_confs"]] == ["other"], "people can read it"


def test_a_failed_save_leaves_the_previous_one(disk: FaultyDisk) -> None:
    TopicFile.open(disk, ROOT).save(config("demo"))
    disk.fail(Operation.FDATASYNC, times=1)
    file = TopicFile.open(disk, ROOT)
    with pytest.raises(OSError, match="error"):
        file.save(config())
    assert TopicFile.open(disk, ROOT).config == config("demo")
    file.save(config())
    assert TopicFile.open(disk, ROOT).config == config()


def test_any_flipped_bit_is_named_and_changes_nothing_in_silence() -> None:
    whole = encode(config("demo", "other"))
    for position in range(len(whole)):
        for bit in range(8):
            disk = FaultyDisk()
            disk.makedirs(ROOT)
            disk.put(FILE, whole)
            disk.flip_bit(FILE, position, bit)
            damaged = disk.content(FILE)
            file = TopicFile.open(disk, ROOT)
            assert file.config == MasterConfig(), (position, bit)
            assert file.loss is not None
            assert str(FILE) in file.loss
            assert disk.content(ROOT / "topics.json.damaged") == damaged, "whoever wants it finds it"
            assert not disk.exists(FILE)


@pytest.mark.parametrize("size", [0, 1, 100, -1, -20, -21])
def test_a_file_that_is_cut_short_is_set_aside(disk: FaultyDisk, size: int) -> None:
    disk.put(FILE, encode(config("demo"))[:size])
    assert TopicFile.open(disk, ROOT).loss is not None


def test_the_loss_is_named_until_the_master_has_sent_the_topics_again(disk: FaultyDisk) -> None:
    disk.put(FILE, b"\xff\xfe")
    file = TopicFile.open(disk, ROOT)
    assert "until the Master has sent them again" in (file.loss or "")
    file.save(config("demo"))
    assert file.loss is None
    assert TopicFile.open(disk, ROOT).config == config("demo")


def test_a_file_of_before_the_check_is_read_once_and_written_again_with_one(disk: FaultyDisk) -> None:
    disk.put(FILE, unchecked(config("demo")))
    assert TopicFile.open(disk, ROOT).config == config("demo")
    assert disk.content(FILE) == encode(config("demo"))


def test_without_space_a_file_of_before_the_check_is_used_all_the_same(disk: FaultyDisk) -> None:
    disk.put(FILE, unchecked(config("demo")))
    disk.fail(Operation.WRITE, errno.ENOSPC, times=1)
    assert TopicFile.open(disk, ROOT).config == config("demo")
    assert disk.content(FILE) == unchecked(config("demo"))


def test_a_file_of_before_the_check_that_makes_no_sense_is_set_aside(disk: FaultyDisk) -> None:
    disk.put(FILE, unchecked(config("../demo")))
    assert TopicFile.open(disk, ROOT).loss is not None


def test_a_file_of_a_newer_version_is_refused_by_name_and_left_untouched(disk: FaultyDisk) -> None:
    newer = seal(b'{"version":3,"surprise":{},')
    disk.put(FILE, newer)
    with pytest.raises(NewerVersionError, match=r"topics\.json"):
        TopicFile.open(disk, ROOT)
    assert disk.content(FILE) == newer


def test_a_missing_file_of_a_store_with_topics_is_a_loss(disk: FaultyDisk) -> None:
    stored = StoredTopics([("demo", 0), ("demo", 10_002), ("other", 1)])
    file = TopicFile.open(disk, ROOT, stored)
    assert f"{FILE} is missing, and the store has demo, other" in (file.loss or "")
    assert [text.split(":")[:2] for text in file.stored.confs()] == [["demo", "3"], ["other", "2"]]
    assert [text.split(":")[8] for text in file.stored.confs()] == ["2", "1"], "stores"
    file.save(MasterConfig(cluster_id=3))
    loss = file.loss
    assert loss is not None, "a configuration without topics says nothing of them"
    assert TopicFile.open(disk, ROOT, stored).loss is not None
    file.save(config())
    assert (file.loss, file.stored.confs()) == (None, ())
    again = TopicFile.open(disk, ROOT, stored)
    assert (again.loss, again.stored.confs()) == (None, ()), "the Master knows that there are none"


def test_the_topics_of_the_store_stand_for_a_damaged_file(disk: FaultyDisk) -> None:
    TopicFile.open(disk, ROOT).save(config("demo"))
    disk.put(FILE, disk.content(FILE).replace(b"demo", b"dent"))
    file = TopicFile.open(disk, ROOT, StoredTopics([("demo", 0)]))
    assert file.loss is not None
    assert len(file.stored.confs()) == 1
