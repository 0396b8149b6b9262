"""Configuration strings, down and up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import FormatError
from pytubemq.master.broker_sync import make_conf, renewed, reported_topics
from pytubemq.model.topic import TopicConfig

MIB = 1 << 20


def strings(*topics: TopicConfig) -> tuple[str, ...]:
    return make_conf(1, topics, cluster_max_message_bytes=MIB).topics


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        (TopicConfig("demo", 3), "demo:3: : : : : : : :0: : : : : "),
        (TopicConfig("filt", 1), "filt: : : : : : : : :0: : : : : "),
        (TopicConfig("multi", 2, 2), "multi:2: : : : : : :2:0: : : : : "),
        (TopicConfig("big", 1, max_message_bytes=4 * MIB), "big: : : : : : : : :0: : : : :4194304"),
    ],
)
def test_strings_are_the_recorded_ones(topic: TopicConfig, text: str) -> None:
    assert strings(topic) == (text,)


def test_removed_topics_are_not_sent() -> None:
    assert strings(TopicConfig("a", 1, status=1), TopicConfig("b", 1, status=2)) == ("a: : : : : : : : :1: : : : : ",)


def test_the_checksum_does_not_depend_on_the_order_but_on_every_setting() -> None:
    one, two = TopicConfig("a", 1), TopicConfig("b", 2)
    there = make_conf(1, [one, two], cluster_max_message_bytes=MIB)
    back = make_conf(1, [two, one], cluster_max_message_bytes=MIB)
    other = make_conf(1, [one, TopicConfig("b", 3)], cluster_max_message_bytes=MIB)
    assert there.sync_id == back.sync_id != other.sync_id
    assert there.sync_id.checksum >= 0


def test_a_change_has_a_new_id_and_no_change_has_not() -> None:
    conf = make_conf(7, [TopicConfig("a", 1)], cluster_max_message_bytes=MIB)
    assert renewed(conf, [TopicConfig("a", 1)], cluster_max_message_bytes=MIB) is conf
    grown = renewed(conf, [TopicConfig("a", 2)], cluster_max_message_bytes=MIB)
    assert grown.sync_id.conf_id == 8
    assert grown.sync_id.checksum != conf.sync_id.checksum


@given(
    st.builds(
        TopicConfig,
        name=st.just("demo"),
        partitions=st.integers(1, 10_000),
        stores=st.integers(1, 8),
        accept_publish=st.booleans(),
        accept_subscribe=st.booleans(),
        delete_policy=st.sampled_from(["delete,168h", "delete,1h"]),
        max_message_bytes=st.sampled_from([MIB, 4 * MIB]),
    )
)
def test_what_goes_down_comes_up_again(topic: TopicConfig) -> None:
    conf = make_conf(1, [topic], cluster_max_message_bytes=MIB)
    assert reported_topics(conf.defaults, conf.topics) == {"demo": topic}


def test_blank_fields_take_the_reported_defaults() -> None:
    found = reported_topics("5:false:true:1000:10000: :delete,1h:2:0:3:10:20000", ["a: : : : : : : : :0: : : : : "])
    assert found["a"] == TopicConfig("a", 5, 2, accept_publish=False, delete_policy="delete,1h")


def test_an_empty_report_is_no_topics_and_a_bad_one_an_error() -> None:
    assert reported_topics("", []) == {}
    assert reported_topics(None, []) == {}
    with pytest.raises(FormatError):
        reported_topics(None, ["demo:x"])
