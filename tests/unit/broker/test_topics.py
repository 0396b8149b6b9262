"""The Master's configuration: read as topics, kept on disk."""

from __future__ import annotations

import msgspec
import pytest

from pytubemq.broker import topics
from pytubemq.broker.topics import MasterConfig, TopicReader, TopicTable, served
from pytubemq.errors import FormatError
from pytubemq.model.durability import Durability
from pytubemq.model.limits import ATTRIBUTE_ALLOWANCE_BYTES, MIB
from pytubemq.model.policy import DEFAULT_RETENTION, RetentionPolicy
from pytubemq.model.topic import TopicConfig
from pytubemq.wire.text.configuration import BrokerTopicConf, parse_broker_topic_conf

DEFAULT = "3:true:true:1000:10000: :delete,168h:1:0:3:10:20000"


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


def test_of_many_topics_only_the_one_that_changed_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str) -> BrokerTopicConf:
        parsed.append(text)
        return parse_broker_topic_conf(text)

    monkeypatch.setattr(topics, "parse_broker_topic_conf", parse)
    reader = TopicReader()
    texts = [f"t{number}: : : : : : : : :0: : : : : " for number in range(100)]
    before = reader.topics(config(*texts))
    changed = msgspec.structs.replace(
        config(*texts, "new: : : : : : : : :0: : : : : "), topic_durability=("t7:memory",)
    )
    after = reader.topics(changed)
    assert parsed[100:] == [texts[7], "new: : : : : : : : :0: : : : : "]
    assert after == changed.topics()
    assert [one is other for one, other in zip(before, after, strict=False)] == [number != 7 for number in range(100)]
    wider = msgspec.structs.replace(changed, default_conf=DEFAULT.replace("3:", "4:", 1))
    assert reader.topics(wider) == wider.topics(), "what all share has changed"


_PLAIN = ": : : : : : : : :0: : : : : "


@pytest.mark.parametrize(
    ("topic_confs", "durability", "retention"),
    [
        (("b",), (), ()),
        (("b",), ("b:memory",), ("b:delete,168h,10GB",)),
        (("b",), ("a:memory",), ()),
        ((), ("a:memory",), ()),
        ((), (), ("a:delete,168h,10GB",)),
        (("a",), (), ()),
        (("later",), (), ()),
        (("b", "later"), ("b:disk",), ()),
    ],
    ids=["new", "new with values", "new, value of another", "value", "retention", "again", "value before", "two"],
)
def test_what_comes_behind_the_last_configuration_is_read_as_in_a_whole_one(
    topic_confs: tuple[str, ...], durability: tuple[str, ...], retention: tuple[str, ...]
) -> None:
    reader = TopicReader()
    first = msgspec.structs.replace(config("a:2" + _PLAIN[1:]), topic_durability=("later:memory",))
    kept = reader.topics(first)
    second = msgspec.structs.replace(
        first,
        topic_confs=(*first.topic_confs, *(name + _PLAIN for name in topic_confs)),
        topic_durability=(*first.topic_durability, *durability),
        topic_retention=retention,
    )
    assert reader.topics(second) == second.topics()
    assert reader.topics(second) == second.topics()
    assert reader.topics(first) == kept, "and one that has less than the last one"


@pytest.mark.parametrize("bad", ["b:0" + _PLAIN[1:], "b:x" + _PLAIN[1:], "../b" + _PLAIN])
def test_after_a_configuration_that_was_refused_the_next_one_is_read(bad: str) -> None:
    reader = TopicReader()
    first = config("a" + _PLAIN)
    reader.topics(first)
    with pytest.raises(FormatError):
        reader.topics(config("a" + _PLAIN, bad))
    good = config("a" + _PLAIN, "b:3" + _PLAIN[1:])
    assert reader.topics(good) == good.topics()


def test_topics_that_are_added_one_after_the_other_are_bounded_together() -> None:
    reader = TopicReader()
    texts = [f"t{number}:10000" + _PLAIN[1:] for number in range(11)]
    for count in range(1, 11):
        assert len(reader.topics(config(*texts[:count]))) == count
    with pytest.raises(FormatError, match="the topics up to t10 have 110000 partitions"):
        reader.topics(config(*texts))


def test_changes_name_what_is_new_or_other_or_gone() -> None:
    table = TopicTable()
    a, b, c = TopicConfig("a", 1), TopicConfig("b", 1), TopicConfig("c", 1)
    table.replace([a, b])
    assert table.compare([a, b, c]) == ((a, b, c), (c,), frozenset())
    assert table.compare([b, c]) == ((b, c), (c,), frozenset({"a"}))
    wider = TopicConfig("a", 2)
    assert table.compare([wider, b]) == ((wider, b), (wider,), frozenset())
    assert len(table) == 2, "nothing is served before it is applied"


def test_a_topic_that_stays_what_it_was_is_not_made_again() -> None:
    table = TopicTable()
    one = TopicConfig("a", 1)
    table.replace([one])
    before = table.get("a")
    table.replace([one, TopicConfig("b", 1)])
    assert table.get("a") is before


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


@pytest.mark.parametrize("name", ["../../x", "/data/other", "..", ".", "a/b", "a\nb", "a\x1b[2J", "a\u202eb", ""])
def test_a_name_that_is_no_topics_is_refused_in_every_string(name: str) -> None:
    with pytest.raises(FormatError):
        config(f"{name}: : : : : : : : :0: : : : : ").topics()
    for field in ("topic_durability", "topic_retention"):
        told = msgspec.structs.replace(config("demo: : : : : : : : :0: : : : : "), **{field: (f"{name}:disk",)})
        with pytest.raises(FormatError):
            told.topics()


def test_many_topics_of_many_partitions_are_refused_before_any_is_made() -> None:
    many = [f"t{number}:10000: : : : : : : :0: : : : : " for number in range(11)]
    with pytest.raises(FormatError, match="110000 partitions on this Broker"):
        config(*many).topics()
    assert len(config(*many[:10]).topics()) == 10
