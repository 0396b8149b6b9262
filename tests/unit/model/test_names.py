"""The rules for names, and how foreign text is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import FormatError, MessageError
from pytubemq.model import names
from pytubemq.model.ids import Address, BrokerInfo, Partition, make_partitions

if TYPE_CHECKING:
    from collections.abc import Callable

UNPLAIN = ["a\x00b", "a\nb", "a\x1b[2J", "a\u202eb", "a\u2028b", "a\ud800"]
HOSTILE = ["", ".", "..", "../x", "/etc", "a/b", "a\\b", *UNPLAIN]
HOSTS = [
    *("localhost", "h", "broker-1.example.org", "broker_1", "a.", "10.1.2.3", "0.0.0.0", "::1", "fe80::1%eth0"),
    *("xn--bcher-kva.example", "1a.b2"),
]
NO_HOSTS = [
    *("", ".", "a..b", "a b", "a#b", "a@b", "a\x1b[2J", "a\nb", "-a", "a-", "bücher.example", "10.1.2", "10.1.2.256"),
    *("1", "10.1.2.3.", "::g", ":::", "fe80::1%", "[::1]", "a" * 64, "a." * 129, "a/b"),
]


@pytest.mark.parametrize("name", [*HOSTILE, "a" * 65, "1a", "a-b", "ä"])
def test_no_topic_is_made_under_such_a_name(name: str) -> None:
    with pytest.raises(MessageError, match="not a topic name") as caught:
        names.check_topic(name)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("name", [*HOSTILE, "a" * 1025, "1a", "a b", "ä"])
def test_no_group_is_made_under_such_a_name(name: str) -> None:
    with pytest.raises(MessageError, match="not a group name") as caught:
        names.check_group(name)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("name", [*HOSTILE, "a" * 65, "1a", "a.b", "ä"])
def test_no_broker_serves_a_topic_of_such_a_name(name: str) -> None:
    with pytest.raises(FormatError, match="not a topic name"):
        names.check_served_topic(name)
    assert not names.is_served_topic(name)


@pytest.mark.parametrize("name", ["demo", "__offset_history__", "a-b", "A1_"])
def test_topics_of_the_original_are_served(name: str) -> None:
    assert names.check_served_topic(name) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_is_made_for_such_a_name(name: str) -> None:
    assert not names.is_file_name(name)


@pytest.mark.parametrize(
    ("name", "fits"), [("a" * 255, True), ("a" * 256, False), ("ä" * 127, True), ("ä" * 128, False)]
)
def test_a_file_name_is_measured_in_bytes(name: str, fits: bool) -> None:
    assert names.is_file_name(name) is fits


@pytest.mark.parametrize("name", ["g_10.1.2.9-1-2-3-Pull-2.5.0", "grüppe 1", "消費者"])
def test_names_of_other_peers_are_plain(name: str) -> None:
    assert names.is_plain(name)


@pytest.mark.parametrize("name", UNPLAIN)
def test_names_that_a_terminal_obeys_are_not_plain(name: str) -> None:
    assert not names.is_plain(name)


@pytest.mark.parametrize("host", HOSTS)
def test_hosts(host: str) -> None:
    assert names.check_host(host) == host
    assert Address.parse(str(Address(host, 1))) == Address(host, 1)


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(FormatError, match="not a host"):
        names.check_host(host)


@pytest.mark.parametrize(
    ("check", "number"),
    [*((names.check_broker_id, n) for n in (-1, 0, 2**31)), *((names.check_port, n) for n in (-1, 0, 65536))],
)
def test_numbers_out_of_bounds(check: Callable[[int], int], number: int) -> None:
    with pytest.raises(FormatError, match=str(number)):
        check(number)


@pytest.mark.parametrize(
    "broker",
    [
        BrokerInfo(0, Address("h", 1)),
        BrokerInfo(2**31, Address("h", 1)),
        BrokerInfo(1, Address("h", 0)),
        BrokerInfo(1, Address("h", 99_999)),
        BrokerInfo(1, Address("a..b", 1)),
    ],
)
def test_brokers_that_nobody_can_connect_to(broker: BrokerInfo) -> None:
    with pytest.raises(FormatError):
        broker.check()


@pytest.mark.parametrize("key", ["1:../x:0", "1::0", "1:a\nb:0", "1:a:9999999999", "x:a:0", "1:a"])
def test_what_is_no_partition_key(key: str) -> None:
    with pytest.raises(FormatError, match="not a partition key"):
        Partition.parse(key)


def test_partitions_that_are_made_together_are_as_those_made_alone() -> None:
    made = list(make_partitions(1, "demo", [0, 3]))
    assert made == [Partition(1, "demo", 0), Partition(1, "demo", 3)]
    assert [type(one) for one in made] == [Partition, Partition]
    assert [f"{one}" for one in made] == ["1:demo:0", "1:demo:3"]
    assert repr(made[0]) == "Partition(broker_id=1, topic='demo', partition_id=0)"
    assert sorted([Partition(2, "a", 0), Partition(1, "b", 1), Partition(1, "a", 9)])[0] == Partition(1, "a", 9)
    with pytest.raises(AttributeError):
        made[0].topic = "other"  # type: ignore[misc]


@given(st.text(max_size=40))
def test_what_is_escaped_has_nothing_that_a_terminal_obeys(text: str) -> None:
    assert names.escaped(text).isprintable()
    assert (names.escaped(text) == text) is text.isprintable()


@given(st.text(max_size=300) | st.text(st.sampled_from("\x7f\n'\u202e\U000e0001a"), max_size=300))
def test_what_is_shown_is_short_and_plain(text: str) -> None:
    shown = names.shown(text, 20)
    assert shown.isprintable()
    assert len(shown) <= 20 + len("''... (300 characters)")
    assert shown == repr(text) if len(repr(text)) <= 22 else shown.endswith(f"... ({len(text)} characters)")


def test_how_it_is_escaped() -> None:
    assert names.escaped("a\n\x1b[2J\u202e\x9b\ud800ü") == "a\\n\\x1b[2J\\u202e\\x9b\\ud800ü"
