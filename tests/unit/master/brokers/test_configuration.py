"""Configuration strings, down and up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import FormatError
from pytubemq.master.brokers import configuration
from pytubemq.master.brokers import reported_topics as reports
from pytubemq.master.brokers.configuration import BrokerConf, broker_conf, changed_conf
from pytubemq.master.brokers.reported_topics import added_topics, reported_removals, reported_topics
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.model.durability import Durability
from pytubemq.model.ids import Address
from pytubemq.model.records import (
    BrokerRecord,
    ClusterRecord,
    DeployRecord,
    Record,
    TopicProps,
    TopicRecord,
    TopicStatus,
)
from pytubemq.model.topic import TopicConfig
from pytubemq.net.clock import SystemClock
from pytubemq.storage.metastore.memory import MemoryMetaStore
from pytubemq.wire.text.configuration import BrokerTopicConf, format_broker_topic_conf, parse_broker_topic_conf

MIB = 1 << 20


def conf(*records: Record, before: BrokerConf | None = None) -> BrokerConf:
    """The configuration of Broker 1 as some records say."""

    async def make() -> BrokerConf:
        catalogue = Catalogue(SystemClock())
        await catalogue.open(MemoryMetaStore)
        missing = {record.topic for record in records if isinstance(record, DeployRecord)}
        missing -= {record.topic for record in records if isinstance(record, TopicRecord)}
        brokers = [BrokerRecord(1, Address("127.0.0.1", 8123))]
        if any(isinstance(record, BrokerRecord) for record in records):
            brokers.clear()
        await catalogue.apply([*brokers, *map(TopicRecord, missing), *records])
        await catalogue.close()
        return broker_conf(catalogue, 1, before, first_id=7)

    return asyncio.run(make())


def place(topic: str, status: TopicStatus = TopicStatus.NORMAL, **props: Any) -> DeployRecord:
    return DeployRecord(topic, 1, status, TopicProps(**props))


PLACES = [
    place("x"),
    place("x", num_partitions=2),
    place("x", TopicStatus.SOFT_REMOVED),
    place("x", durability=Durability.MEMORY, delete_policy="keep", num_partitions=2),
]


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (place("demo", num_partitions=3), "demo:3: : : : : : : :0: : : : : "),
        (place("filt", num_partitions=1), "filt: : : : : : : : :0: : : : : "),
        (place("multi", num_partitions=2, num_topic_stores=2), "multi:2: : : : : : :2:0: : : : : "),
        (
            place("flush", unflush_threshold=1, unflush_interval=2, unflush_data_hold=3),
            "flush: : : :1:2: : : :0:3: : : : ",
        ),
        (
            place("cache", mem_cache_msg_size_in_mb=4, mem_cache_msg_cnt_in_k=5, mem_cache_flush_intvl=6000),
            "cache: : : : : : : : :0: :4:5:6000: ",
        ),
    ],
)
def test_strings_are_the_recorded_ones(record: DeployRecord, text: str) -> None:
    assert conf(record).topics == (text,)


def test_a_size_is_told_where_it_is_not_the_clusters() -> None:
    big = TopicRecord("big", max_message_bytes=4 * MIB)
    assert conf(big, place("big")).topics == ("big: : : : : : : : :0: : : : :4194304",)
    cluster = ClusterRecord(max_message_bytes=4 * MIB)
    assert conf(big, place("big"), cluster).topics == ("big: : : : : : : : :0: : : : : ",)


def test_a_property_comes_from_the_topic_else_the_broker_else_the_cluster() -> None:
    cluster = ClusterRecord(props=TopicProps(num_partitions=4, delete_policy="delete,9h"))
    broker = BrokerRecord(1, Address("127.0.0.1", 8123), props=TopicProps(num_partitions=5, accept_publish=False))
    made = conf(cluster, broker, place("a", num_partitions=5, accept_publish=True), place("b"))
    assert made.defaults == "5:false:true:1000:10000: :delete,9h:1:0:3:10:20000"
    assert made.topics == ("a: :true: : : : : : :0: : : : : ", "b: : : : : : : : :0: : : : : ")


def test_removed_topics_are_told_apart() -> None:
    made = conf(place("a", TopicStatus.SOFT_DELETED), place("b", TopicStatus.SOFT_REMOVED))
    assert made.topics == ("a: : : : : : : : :1: : : : : ",)
    assert made.removed == ("b: : : : : : : : :2: : : : : ",)


def test_the_checksum_depends_on_every_setting() -> None:
    one = conf(place("a"), place("b", num_partitions=2))
    other = conf(place("a"), place("b", num_partitions=3))
    assert one.sync_id == conf(place("b", num_partitions=2), place("a")).sync_id != other.sync_id
    assert one.sync_id.checksum >= 0


def test_a_change_has_a_new_id_and_no_change_has_not() -> None:
    made = conf(place("a"))
    assert made.sync_id.conf_id == 7
    assert conf(place("a"), before=made) is made
    grown = conf(place("a", num_partitions=2), before=made)
    assert grown.sync_id.conf_id == 8
    assert grown.sync_id.checksum != made.sync_id.checksum
    removing = conf(place("a"), place("b", TopicStatus.SOFT_REMOVED), before=made)
    assert removing.sync_id == made.sync_id, "what is removed is no part of it"
    assert removing.removed


@given(
    st.builds(
        place,
        topic=st.just("demo"),
        num_partitions=st.integers(1, 1250),
        num_topic_stores=st.integers(1, 8),
        accept_publish=st.booleans(),
        accept_subscribe=st.booleans(),
        delete_policy=st.sampled_from(["delete,168h", "delete,1h"]),
    ),
    st.sampled_from([MIB, 4 * MIB]),
)
def test_what_goes_down_comes_up_again(record: DeployRecord, size: int) -> None:
    made = conf(TopicRecord("demo", max_message_bytes=size), record)
    props = record.props
    assert reported_topics(made.defaults, made.topics) == {
        made.topics[0]: TopicConfig(
            "demo",
            props.num_partitions or 0,
            props.num_topic_stores or 0,
            bool(props.accept_publish),
            bool(props.accept_subscribe),
            props.delete_policy or "",
            size,
        )
    }


def test_blank_fields_take_the_reported_defaults() -> None:
    found = reported_topics("5:false:true:1000:10000: :delete,1h:2:0:3:10:20000", ["a: : : : : : : : :0: : : : : "])
    assert found["a: : : : : : : : :0: : : : : "] == TopicConfig(
        "a", 5, 2, accept_publish=False, delete_policy="delete,1h"
    )


def test_an_empty_report_is_no_topics_and_a_bad_one_an_error() -> None:
    assert reported_topics("", []) == {}
    assert reported_topics(None, []) == {}
    with pytest.raises(FormatError):
        reported_topics(None, ["demo:x"])


def test_one_more_topic_makes_and_reads_its_own_strings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    read: list[str] = []

    def formatting(conf: BrokerTopicConf) -> str:
        made.append(conf.topic)
        return format_broker_topic_conf(conf)

    def parsing(text: str) -> BrokerTopicConf:
        read.append(text)
        return parse_broker_topic_conf(text)

    monkeypatch.setattr(configuration, "format_broker_topic_conf", formatting)
    monkeypatch.setattr(reports, "parse_broker_topic_conf", parsing)
    many = [place(f"t{number:03d}", num_partitions=2, durability=Durability.MEMORY) for number in range(50)]
    first = conf(*many)
    known = reported_topics(first.defaults, first.topics)
    made.clear()
    read.clear()
    second = conf(*many, place("z", num_partitions=2, delete_policy="keep"), before=first)
    after = reported_topics(second.defaults, second.topics, known)
    assert (made, len(read)) == (["z"], 1)
    alone = conf(*many, place("z", num_partitions=2, delete_policy="keep"))
    assert second == replace(alone, sync_id=second.sync_id)
    assert after == reported_topics(alone.defaults, alone.topics)


@pytest.mark.parametrize("names", ["abc", "abcd", "abcde", "ab", "bac", "bacd", "acd", "dabc", "", "xyz"])
def test_a_report_says_the_same_whatever_was_reported_before(names: str) -> None:
    texts = [f"{name}: : : : : : : : :0: : : : : " for name in names]
    known = reported_topics(None, [f"{name}: : : : : : : : :0: : : : : " for name in "abc"])
    report = reported_topics(None, texts, known)
    assert report == reported_topics(None, texts)
    assert sorted(topic.name for topic in added_topics(report, known)) == sorted(set(names) - set("abc"))


@pytest.mark.parametrize("again", ["a: : : : : : : : :0: : : : : ", "a:2: : : : : : : :0: : : : : "])
def test_a_topic_that_is_reported_again_behind_the_others_is_refused(again: str) -> None:
    texts = ["a: : : : : : : : :0: : : : : ", "b: : : : : : : : :0: : : : : "]
    with pytest.raises(FormatError, match="topic a is reported twice"):
        reported_topics(None, [*texts, again], reported_topics(None, texts))


def test_another_default_makes_every_topic_anew() -> None:
    many = [place(f"t{number}") for number in range(3)]
    first = conf(*many)
    for record in (ClusterRecord(max_message_bytes=2 * MIB), ClusterRecord(props=TopicProps(delete_policy="keep"))):
        made = conf(*many, record, before=first)
        assert made == replace(conf(*many, record), sync_id=made.sync_id)


def test_reported_removals_are_names() -> None:
    assert reported_removals(["a", " b", "c:3: : : : : : : :2: : : : "]) == {"a", "b", "c"}


def test_durability_is_told_beside_the_strings_where_a_topic_has_one() -> None:
    made = conf(place("a", durability=Durability.MEMORY), place("b"))
    assert made.durability == ("a:memory",)
    assert made.topics == conf(place("a"), place("b")).topics, "a Java Broker sees no difference"
    everywhere = conf(ClusterRecord(props=TopicProps(durability=Durability.PROCESS)), place("a"), place("b"))
    assert everywhere.durability == ("a:process", "b:process")


@pytest.mark.parametrize(
    ("policy", "told", "beside"),
    [
        ("delete,9h", "delete,9h", ()),
        ("delete,720h", "delete,720h", ()),
        ("delete,9h,10GB", "delete,9h", ("a:delete,9h,10GB",)),
        ("delete,10GB", "delete,87600h", ("a:delete,10GB",)),
        ("keep", "delete,87600h", ("a:keep",)),
    ],
)
def test_a_policy_that_the_original_has_no_words_for_is_told_beside_its_age(
    policy: str, told: str, beside: tuple[str, ...]
) -> None:
    made = conf(place("a", delete_policy=policy))
    assert made.topics == (f"a: : : : : : :{told}: :0: : : : : ",)
    assert made.retention == beside
    inherited = conf(ClusterRecord(props=TopicProps(delete_policy=policy)), place("a"))
    assert f":{told}:" in inherited.defaults
    assert inherited.retention == beside


def test_what_is_told_beside_the_strings_is_part_of_what_is_in_sync() -> None:
    made = conf(place("a"))
    other = conf(place("a", durability=Durability.DISK), before=made)
    assert other.sync_id.conf_id == 8
    assert other.sync_id.checksum != made.sync_id.checksum
    limited = conf(place("a", delete_policy="delete,168h,1GB"), before=made)
    assert limited.sync_id != made.sync_id
    assert conf(place("a", delete_policy="delete,168h,2GB"), before=limited).sync_id != limited.sync_id


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([None, *PLACES])), max_size=8))
def test_changes_one_by_one_lead_to_the_configuration_of_the_records(
    steps: list[tuple[str, DeployRecord | None]],
) -> None:
    async def change() -> None:
        catalogue = Catalogue(SystemClock())
        await catalogue.open(MemoryMetaStore)
        await catalogue.apply([BrokerRecord(1, Address("127.0.0.1", 8123)), *map(TopicRecord, "abcd")])
        made = broker_conf(catalogue, 1, None, first_id=7)
        for topic, shape in steps:
            known = catalogue.deployed(topic).get(1)
            if shape is not None:
                await catalogue.apply([replace(shape, topic=topic)])
            elif known is not None:
                await catalogue.apply(deletes=[known])
            before, made = made, changed_conf(catalogue, 1, made, [topic])
            whole = broker_conf(catalogue, 1, None, first_id=made.sync_id.conf_id)
            assert made == whole
            assert (made.sync_id == before.sync_id) == (sorted(made.topics) == sorted(before.topics))
            assert (made is before) == ((made.sync_id, made.removed) == (before.sync_id, before.removed))
        await catalogue.close()

    asyncio.run(change())
