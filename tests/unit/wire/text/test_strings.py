"""The string micro-formats: the documented examples, what sloppy peers send, and noise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import FormatError
from pytubemq.model.ids import Address, BrokerInfo, Partition
from pytubemq.model.limits import MAX_WIRE_SUBSCRIPTIONS
from pytubemq.wire.text.broker_strings import (
    format_broker_info,
    format_broker_infos,
    parse_broker_info,
)
from pytubemq.wire.text.client_id import ClientId, check_client_id, format_client_id
from pytubemq.wire.text.configuration import (
    BrokerDefaultConf,
    BrokerTopicConf,
    format_broker_default_conf,
    format_broker_topic_conf,
    parse_broker_default_conf,
    parse_broker_topic_conf,
)
from pytubemq.wire.text.partition_strings import (
    FailureInfo,
    PartitionInfo,
    SubscribeInfo,
    format_failure_info,
    format_part_sub_info,
    format_partition_info,
    format_required_partition,
    format_subscribe_info,
    format_subscribed,
    parse_failure_info,
    parse_part_sub_info,
    parse_partition_info,
    parse_required_partition,
    parse_subscribe_info,
    parse_subscribed,
)
from pytubemq.wire.text.topic_strings import (
    TopicBroker,
    TopicCondition,
    TopicInfo,
    TopicMetaBroker,
    TopicMetaInfo,
    format_topic_condition,
    format_topic_info,
    format_topic_meta_info,
    parse_topic_condition,
    parse_topic_info,
    parse_topic_meta_info,
)
from tests.unit.wire.strategies import fault

BROKER = BrokerInfo(100, Address("10.1.2.3", 8123))
PARTITION = Partition(100, "demo", 1)

EXAMPLES: list[tuple[Any, Any, str, Any]] = [
    (parse_broker_info, format_broker_info, "100:10.1.2.3: ", BROKER),
    (
        parse_broker_info,
        format_broker_info,
        "101:10.1.2.4:9123",
        BrokerInfo(101, Address("10.1.2.4", 9123)),
    ),
    (
        parse_broker_info,
        format_broker_info,
        "101:[::1]:9123",
        BrokerInfo(101, Address("::1", 9123)),
    ),
    (
        parse_topic_info,
        format_topic_info,
        "demo#100:3:2,101:3:1#",
        TopicInfo("demo", (TopicBroker(100, 3, 2), TopicBroker(101, 3, 1))),
    ),
    (
        parse_topic_info,
        format_topic_info,
        "big#100:1:1#4194304",
        TopicInfo("big", (TopicBroker(100, 1, 1),), 4194304),
    ),
    (
        parse_topic_meta_info,
        format_topic_meta_info,
        "demo#100:2:3:1,101:1:3:0",
        TopicMetaInfo("demo", (TopicMetaBroker(100, 2, 3, True), TopicMetaBroker(101, 1, 3, False))),
    ),
    (
        parse_subscribe_info,
        format_subscribe_info,
        "g_10.1.2.9-1-2-3-Pull-2.5.0@g#100:10.1.2.3:8123#demo:1",
        SubscribeInfo("g_10.1.2.9-1-2-3-Pull-2.5.0", "g", BROKER, PARTITION),
    ),
    (
        parse_partition_info,
        format_partition_info,
        "100:10.1.2.3:8123#demo:1",
        PartitionInfo(BROKER, PARTITION),
    ),
    (
        parse_failure_info,
        format_failure_info,
        "411:100:10.1.2.3:8123#demo:1",
        FailureInfo(411, BROKER, PARTITION),
    ),
    (
        parse_topic_condition,
        format_topic_condition,
        "demo#aa,bb",
        TopicCondition("demo", ("aa", "bb")),
    ),
    (
        parse_required_partition,
        format_required_partition,
        "100:demo:0=2800,100:demo:1=0",
        {Partition(100, "demo", 0): 2800, PARTITION: 0},
    ),
    (
        parse_part_sub_info,
        lambda value: format_part_sub_info(*value),
        "demo#100:0,100:10001",
        ("demo", [(100, 0), (100, 10001)]),
    ),
    (
        parse_broker_default_conf,
        format_broker_default_conf,
        "3:true:true:1000:10000: :delete,168h:1:0:3:10:20000",
        BrokerDefaultConf(partitions=3),
    ),
    (
        parse_broker_topic_conf,
        format_broker_topic_conf,
        "demo: : : : : : : : :0: : : : : ",
        BrokerTopicConf(topic="demo"),
    ),
    (
        parse_broker_topic_conf,
        format_broker_topic_conf,
        "big:1:true:false: : : :delete,10h:1:0: : : : :4194304",
        BrokerTopicConf(
            topic="big",
            partitions=1,
            accept_publish=True,
            accept_subscribe=False,
            delete_policy="delete,10h",
            stores=1,
            max_message_bytes=4194304,
        ),
    ),
]


@pytest.mark.parametrize(("parse", "write", "text", "value"), EXAMPLES, ids=[example[2] for example in EXAMPLES])
def test_examples(parse: Any, write: Any, text: str, value: Any) -> None:
    assert parse(text) == value
    assert write(value) == text


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_broker_info, "100:10.1.2.3", BROKER),
        (parse_broker_info, " 100:10.1.2.3:8123 ", BROKER),
        (parse_topic_condition, "demo#", TopicCondition("demo", ())),
        (parse_topic_condition, "demo# bb,,aa, bb", TopicCondition("demo", ("bb", "aa"))),
        (parse_topic_info, "demo#100:3:1", TopicInfo("demo", (TopicBroker(100, 3, 1),))),
        (parse_topic_info, "demo##", TopicInfo("demo", ())),
        (parse_topic_info, "demo#100:3:1,#-2", TopicInfo("demo", (TopicBroker(100, 3, 1),))),
        (parse_part_sub_info, "demo#", ("demo", [])),
        (parse_required_partition, "", {}),
        (parse_required_partition, "100:demo:1=-1", {PARTITION: -1}),
        (parse_broker_topic_conf, "demo: : : : : : : : : : : : : ", BrokerTopicConf(topic="demo")),
    ],
)
def test_sloppy_peers(parse: Any, text: str, value: Any) -> None:
    assert parse(text) == value


def test_the_tls_port_is_another_default() -> None:
    assert parse_broker_info("1:h: ", default_port=8124) == BrokerInfo(1, Address("h", 8124))
    assert format_broker_info(BrokerInfo(1, Address("h", 8123)), default_port=8124) == "1:h:8123"


def test_a_blank_field_of_a_brokers_defaults_takes_the_originals() -> None:
    found = parse_broker_default_conf(" : : : : : : : : : : : ")
    assert found == BrokerDefaultConf()
    assert (found.partitions, found.stores, found.delete_policy) == (1, 1, "delete,168h")


def test_a_list_of_brokers_is_in_order() -> None:
    assert format_broker_infos([BrokerInfo(101, Address("b", 1)), BROKER]) == ("100:10.1.2.3: ", "101:b:1")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_broker_info, ""),
        (parse_broker_info, "100"),
        (parse_broker_info, "x:h:1"),
        (parse_broker_info, "100::1"),
        (parse_broker_info, "100:h:70000"),
        (parse_broker_info, "100:h:port"),
        (parse_broker_info, "100:h:0"),
        (parse_broker_info, "0:h:1"),
        (parse_broker_info, "9999999999:h:1"),
        (parse_broker_info, "100:a b:1"),
        (parse_broker_info, "100:a..b:1"),
        (parse_broker_info, "100:a\x1b[2J:1"),
        (parse_broker_info, "100:a#b:1"),
        (parse_broker_info, "100:-a:1"),
        (parse_broker_info, "100:10.1.2:1"),
        (parse_broker_info, "100:10.1.2.256:1"),
        (parse_broker_info, "100:[::g]:1"),
        (parse_broker_info, "100:" + "a" * 300 + ":1"),
        (parse_topic_info, "demo#1:1000000:1#"),
        (parse_topic_info, "demo#1:10000:2#"),
        (parse_topic_info, "demo#1:1:10001#"),
        (parse_topic_info, "demo#1:0:1#"),
        (parse_topic_info, "demo#0:1:1#"),
        (parse_topic_info, "demo#9999999999:1:1#"),
        (parse_topic_info, "demo#1:1:1,1:1:1#"),
        (parse_topic_info, "../x#1:1:1#"),
        (parse_topic_meta_info, "demo#1:1:1000000:1"),
        (parse_topic_meta_info, "demo#1:100:101:1"),
        (parse_topic_meta_info, "de\nmo#1:1:1:1"),
        (parse_part_sub_info, "demo#1:9999999999"),
        (parse_subscribe_info, "c\n@g#100:h:1#demo:1"),
        (parse_subscribe_info, "c@g\u202e#100:h:1#demo:1"),
        (parse_partition_info, "100:h:1#../demo:1"),
        (parse_required_partition, "1:../demo:0=1"),
        (parse_topic_info, "demo"),
        (parse_topic_info, "#1:1:1#"),
        (parse_topic_info, "demo#1:1#"),
        (parse_topic_info, "demo#1:1:1#big"),
        (parse_topic_meta_info, "demo#1:1:1"),
        (parse_topic_condition, "demo"),
        (parse_required_partition, "²:demo:1=1"),
        (parse_required_partition, "1:demo:" + "9" * 5000 + "=1"),
        (parse_subscribe_info, "c#100:h:1#demo:1"),
        (parse_subscribe_info, "c@g#100:h:1"),
        (parse_subscribe_info, "c@g@h#100:h:1#demo:1"),
        (parse_partition_info, "100:h:1#demo"),
        (parse_partition_info, "100:h:1#demo:x"),
        (parse_partition_info, "100:h:1#:1"),
        (parse_failure_info, "100"),
        (parse_failure_info, "x:100:h:1#demo:1"),
        (parse_topic_condition, "#a"),
        (parse_part_sub_info, "demo#1"),
        (parse_required_partition, "1:demo:0"),
        (parse_required_partition, "1:demo=3"),
        (parse_broker_default_conf, ""),
        (parse_broker_default_conf, "3:yes:true:1000:10000: :delete,168h:1:0:3:10:20000"),
        (parse_broker_topic_conf, "demo:1"),
        (parse_broker_topic_conf, "../../x: : : : : : : : :0: : : : : "),
        (parse_broker_topic_conf, "/etc: : : : : : : : :2: : : : : "),
        (parse_broker_topic_conf, "a\nb: : : : : : : : :2: : : : : "),
        (parse_broker_topic_conf, " : : : : : : : : :0: : : : : "),
        (parse_broker_topic_conf, "demo:x: : : : : : : :0: : : : : "),
        (parse_broker_topic_conf, "demo: : : : : : : : :0: : : : : : "),
    ],
)
def test_broken_strings(parse: Any, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse(text)
    assert caught.value.hint


def test_a_brokers_item_that_cannot_be_read_leaves_the_others_of_the_topic() -> None:
    skipped: list[FormatError] = []
    found = parse_topic_info("demo#1:3:1,9999999999:3:1,2:1000000:1,3:1:1#", skip=skipped.append)
    assert [broker.broker_id for broker in found.brokers] == [1, 3]
    meta = parse_topic_meta_info("demo#1:1:3:1,0:1:1:1,3:1:1:0", skip=skipped.append)
    assert [broker.broker_id for broker in meta.brokers] == [1, 3]
    assert len(skipped) == 3


PARSERS = sorted({example[0] for example in EXAMPLES}, key=lambda parse: parse.__name__)


@given(st.sampled_from(PARSERS), st.text("a1:#@,= -²x", max_size=40) | st.text(max_size=40))
def test_noise_gives_a_value_or_format_error(parse: Any, noise: str) -> None:
    error = fault(lambda: parse(noise), FormatError)
    assert error is None or len(error.message) < 1000


@given(
    st.integers(1, 2**31 - 1),
    st.from_regex(r"[a-z0-9]{1,9}(\.[a-z][a-z0-9]{0,9}){1,3}", fullmatch=True)
    | st.ip_addresses().map(str)
    | st.just("localhost"),
    st.integers(1, 65535),
    st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,20}", fullmatch=True),
    st.integers(0, 99_999),
)
def test_what_is_written_is_read(broker_id: int, host: str, port: int, topic: str, number: int) -> None:
    broker = BrokerInfo(broker_id, Address(host, port))
    assert parse_broker_info(format_broker_info(broker)) == broker
    held = PartitionInfo(broker, Partition(broker_id, topic, number))
    assert parse_partition_info(format_partition_info(held)) == held
    mine = SubscribeInfo("g_c-1", "g", broker, held.partition)
    assert parse_subscribe_info(format_subscribe_info(mine)) == mine


def test_client_ids() -> None:
    consumer = ClientId(ip="10.1.2.9", pid=1, started_ms=2, counter=3, version="0.1.0", group="my_group", kind="Pull")
    assert format_client_id(consumer) == "my_group_10.1.2.9-1-2-3-Pull-0.1.0"
    producer = ClientId(ip="10.1.2.9", pid=1, started_ms=2, counter=3, version="0.1.0")
    assert format_client_id(producer) == "10.1.2.9-1-2-3-0.1.0"


@pytest.mark.parametrize("text", ["", "  ", "a@b", "a#b", "a\nb", "a\x1b[2Jb", "a\u202eb", "x" * 1025])
def test_client_ids_that_break_a_server(text: str) -> None:
    with pytest.raises(FormatError, match="not a client id"):
        check_client_id(text)
    assert check_client_id(" a ") == "a"


@pytest.mark.parametrize("item", ["", " ", "a,b", "a#b"])
def test_filter_items_that_cannot_be_written(item: str) -> None:
    with pytest.raises(FormatError, match="not a filter item"):
        format_topic_condition(TopicCondition("demo", (item,)))


def test_many_subscriptions_are_read_as_each_alone() -> None:
    texts = [f"c@g#1:h:8123#{topic}:{n}" for topic in ("demo", "other") for n in (0, 7, 10_000, 2**31 - 1)]
    texts += ["d@g#2:h: #demo:3", "c@g#1:h:8123#demo: 5"]
    assert parse_subscribed(texts) == {parse_subscribe_info(text).partition for text in texts}
    for bad in (
        "c@g#1:h:8123#demo:x",
        "c@g#1:h:8123#demo:",
        "c@g#1:h:8123#demo:-1",
        "c@g#1:h:8123#demo:2147483648",
        "",
    ):
        with pytest.raises(FormatError):
            parse_subscribed(["c@g#1:h:8123#demo:0", f"c@g#1:h:8123#demo:{bad}"])


def test_many_subscriptions_are_written_as_each_alone() -> None:
    partitions = [Partition(broker, topic, n) for broker in (1, 11) for topic in ("demo", "d1") for n in (1, 11, 111)]
    brokers = {1: BrokerInfo(1, Address("h1", 8123)), 11: BrokerInfo(11, Address("::1", 9123))}
    assert format_subscribed("c1", "g1", partitions, brokers.__getitem__) == tuple(
        format_subscribe_info(SubscribeInfo("c1", "g1", brokers[partition.broker_id], partition))
        for partition in partitions
    )


def test_many_places_to_begin_are_read_as_each_alone() -> None:
    texts = [f"{broker}:{topic}:{n}={n - 1}" for broker in (1, 11) for topic in ("demo", "d1") for n in (0, 7, 10_000)]
    texts += ["1:demo:7 = -1", " 1:demo:8=2"]
    read = parse_required_partition(",".join(texts))
    alone = [parse_required_partition(text) for text in texts]
    assert list(read.items()) == list({key: offset for one in alone for key, offset in one.items()}.items())
    for bad in ("1:demo:x=1", "1:demo:=1", "1:demo:-1=1", "1:demo:9999999999=1", "2:demo=1", "1:demo:0", "1:demo:²=1"):
        with pytest.raises(FormatError):
            parse_required_partition(f"1:demo:0=1,{bad}")


def test_a_subscription_of_very_many_partitions_is_refused_before_they_are_read() -> None:
    with pytest.raises(FormatError, match="has 100001 partitions"):
        parse_part_sub_info("demo#" + "x," * MAX_WIRE_SUBSCRIPTIONS + "x")
