"""The Master's configuration: read as topics, kept on disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytubemq.broker.topics import MasterConfig, TopicTable, load, save, served
from pytubemq.errors import CorruptError, FormatError, NewerVersionError
from pytubemq.model.durability import Durability
from pytubemq.model.limits import ATTRIBUTE_ALLOWANCE_BYTES, MIB
from pytubemq.model.policy import DEFAULT_RETENTION, RetentionPolicy
from pytubemq.model.topic import TopicConfig
from pytubemq.testing.disk import FaultyDisk, Operation

DEFAULT = "3:true:true:1000:10000: :delete,168h:1:0:3:10:20000"
ROOT = Path("/data/broker-1")


def config(*topics: str) -> MasterConfig:
    return MasterConfig(conf_id=7, check_sum=9, default_conf=DEFAULT, topic_confs=topics)


def test_blank_fields_take_the_brokers_defaults() -> None:
    plain, big = config(
        "demo: : : : : : : : :0: : : : : ", "big:1:true:true: : : :delete,24h:2:1: : : : :4194304"
    ).topics()
    assert (plain.name, plain.partition_ids(), plain.status) == ("demo", [0, 1, 2], 0)
    assert (big.partition_ids(), big.status, big.delete_policy) == ([0, 10_000], 1, "delete,24h")
    assert served(big).max_payload_bytes == 4 * MIB + ATTRIBUTE_ALLOWANCE_BYTES
    assert not served(big).writable
    assert served(big).readable


def test_what_our_master_says_beside_the_strings_counts() -> None:
    topics = "demo: : : : : : : : :0: : : : : ", "big: : : : : : :delete,24h: :0: : : : : "
    told = msgspec.structs.replace(
        config(*topics), topic_durability=("demo:memory",), topic_retention=("demo:delete,168h,10GB",)
    )
    demo, big = told.topics()
    assert (demo.durability, demo.retention) == (Durability.MEMORY, RetentionPolicy(168 * 3600.0, 10 * 2**30))
    assert demo.delete_policy == "delete,168h,10GB"
    assert (big.durability, big.retention) == (None, RetentionPolicy(24 * 3600.0, None))


def test_a_policy_of_a_java_master_is_read_as_its_own_broker_reads_it() -> None:
    odd, plain = config("a: : : : : : :keep: :0: : : : : ", "b: : : : : : :delete,5: :0: : : : : ").topics()
    assert odd.retention == DEFAULT_RETENTION
    assert plain.retention == RetentionPolicy(5 * 3600.0, None)


@pytest.mark.parametrize("field", ["topic_durability", "topic_retention"])
@pytest.mark.parametrize("text", ["demo:tape", "demo:", "demo", ":disk"])
def test_what_is_said_in_words_of_a_newer_version_is_refused_and_no_guess_is_made(field: str, text: str) -> None:
    told = msgspec.structs.replace(config("demo: : : : : : : : :0: : : : : "), **{field: (text,)})
    with pytest.raises(FormatError):
        told.topics()


def test_without_defaults_there_is_no_topic() -> None:
    assert MasterConfig(topic_confs=("demo: : : : : : : : :0: : : : : ",)).topics() == []


@pytest.mark.parametrize("name", ["../etc", "a/b", "", "x" * 65, "1st"])
def test_a_name_that_cannot_be_a_directory_is_refused(name: str) -> None:
    with pytest.raises(FormatError):
        config(f"{name}: : : : : : : : :0: : : : : ").topics()


@pytest.mark.parametrize("partitions", ["0", "10001", "-1"])
def test_a_number_of_partitions_out_of_bounds_is_refused(partitions: str) -> None:
    with pytest.raises(FormatError, match="demo"):
        config(f"demo:{partitions}: : : : : : : :0: : : : : ").topics()


def test_messages_are_at_least_1_and_at_most_20_mib() -> None:
    small, large = (
        served(TopicConfig("a", 1, max_message_bytes=5)),
        served(TopicConfig("a", 1, max_message_bytes=1 << 40)),
    )
    assert small.max_payload_bytes == 1 * MIB + ATTRIBUTE_ALLOWANCE_BYTES
    assert large.max_payload_bytes == 20 * MIB + ATTRIBUTE_ALLOWANCE_BYTES


def test_replace_forgets_what_is_not_named() -> None:
    table = TopicTable()
    table.replace([TopicConfig("a", 1), TopicConfig("b", 1)])
    table.replace([TopicConfig("b", 2)])
    assert table.get("a") is None
    assert [topic.config.partitions for topic in table] == [2]


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk()
    disk.makedirs(ROOT)
    for directory in (Path("/"), ROOT.parent, ROOT):
        disk.fsync_dir(directory)
    return disk


def test_what_was_saved_is_loaded_after_a_crash(disk: FaultyDisk) -> None:
    assert load(disk, ROOT) is None
    save(disk, ROOT, config("demo: : : : : : : : :0: : : : : "))
    save(disk, ROOT, config("other: : : : : : : : :0: : : : : "))
    disk.crash()
    assert load(disk, ROOT) == config("other: : : : : : : : :0: : : : : ")


def test_a_failed_save_leaves_the_previous_one(disk: FaultyDisk) -> None:
    save(disk, ROOT, config("demo: : : : : : : : :0: : : : : "))
    disk.fail(Operation.FDATASYNC, times=1)
    with pytest.raises(OSError, match="error"):
        save(disk, ROOT, config())
    assert load(disk, ROOT) == config("demo: : : : : : : : :0: : : : : ")
    save(disk, ROOT, config())
    assert load(disk, ROOT) == config()


def test_a_newer_file_and_a_damaged_one_are_refused_by_name(disk: FaultyDisk) -> None:
    disk.put(ROOT / "topics.json", b'{"version": 2, "surprise": {}}')
    with pytest.raises(NewerVersionError, match=r"topics\.json"):
        load(disk, ROOT)
    disk.put(ROOT / "topics.json", b'{"version": 1, "conf_id"')
    with pytest.raises(CorruptError, match=r"topics\.json"):
        load(disk, ROOT)
