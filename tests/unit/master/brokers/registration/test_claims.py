"""Who may register a Broker while another holds its id."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.master.brokers.broker_run import BrokerRun
from pytubemq.master.brokers.configuration import BrokerConf, SyncId, TopicFormatter
from pytubemq.master.brokers.registration.claims import BrokerIdentity, Claim, check_source, is_heard
from pytubemq.model.ids import Address
from pytubemq.model.limits import BROKER_TAKE_BACK_S, FOREIGN_CONNECTION_GRACE_S
from pytubemq.model.records import BUILT_IN_PROPS
from pytubemq.model.topic import TopicConfig

HERE, ELSEWHERE = Address("10.0.0.1", 8123), Address("10.0.0.2", 8123)
RUN = BrokerRun(
    broker_id=1,
    address=HERE,
    version="",
    deadline_s=0.0,
    heard_s=100.0,
    conf=BrokerConf(SyncId(), TopicFormatter(BUILT_IN_PROPS, 1), "", {}),
    source="10.0.0.9",
    holds_heartbeats=True,
)
FIRST = Claim(HERE, 0.0, None, frozenset())
DEMO = {"demo": TopicConfig("demo", 1)}


def test_another_machine_does_not_register_a_broker_that_is_heard_of() -> None:
    with pytest.raises(Refused, match=r"registered from 10\.0\.0\.9 and alive") as caught:
        check_source(RUN, "10.0.0.3")
    assert caught.value.refusal.code == Code.BAD_REQUEST


@pytest.mark.parametrize("source", ["10.0.0.9", "10.0.0.1"])
def test_the_same_machine_does_and_the_one_of_the_record(source: str) -> None:
    check_source(RUN, source)


def test_one_is_heard_of_while_its_connection_is_open_and_in_use() -> None:
    assert is_heard(RUN, 100.0 + FOREIGN_CONNECTION_GRACE_S - 1)
    assert not is_heard(RUN, 100.0 + FOREIGN_CONNECTION_GRACE_S)
    assert not is_heard(replace(RUN, lost=True), 100.0)
    assert not is_heard(None, 100.0)


def test_who_comes_back_within_the_time_takes_the_record_back_once() -> None:
    taken = FIRST.renewed(ELSEWHERE, ["demo"], [], 10.0)
    assert taken.gives_way(RUN, HERE, [], 10.0 + BROKER_TAKE_BACK_S - 1)
    assert not taken.gives_way(RUN, HERE, [], 10.0 + BROKER_TAKE_BACK_S)
    back = taken.renewed(HERE, ["demo"], [], 20.0)
    assert not back.gives_way(RUN, ELSEWHERE, [], 21.0)


def test_topics_that_the_present_one_was_only_sent_do_not_count_as_its_own() -> None:
    taken = FIRST.renewed(ELSEWHERE, ["demo"], [], 10.0)
    again = taken.renewed(ELSEWHERE, ["demo"], ["demo"], 20.0)  # registers anew, with what it was sent
    assert again.gives_way(replace(RUN, topics=DEMO), HERE, ["demo"], 10.0 + 10 * BROKER_TAKE_BACK_S)


def test_who_brings_a_topic_or_got_one_of_its_own_stays() -> None:
    brings = FIRST.renewed(ELSEWHERE, ["demo"], ["demo"], 10.0)
    assert not brings.gives_way(RUN, HERE, ["demo"], 11.0)
    taken = FIRST.renewed(ELSEWHERE, [], [], 10.0)
    assert taken.gives_way(RUN, HERE, [], 11.0)
    assert not taken.gives_way(replace(RUN, topics=DEMO), HERE, [], 11.0), "placed there since"


def test_one_of_the_original_gives_way_to_the_address_before_alone() -> None:
    java = replace(RUN, holds_heartbeats=False)
    taken = FIRST.renewed(ELSEWHERE, ["demo"], [], 10.0)
    assert taken.gives_way(java, HERE, [], 11.0)
    assert not taken.gives_way(java, Address("10.0.0.3", 1), ["demo"], 11.0)


@pytest.mark.parametrize(
    ("text", "address", "version"),
    [
        ("1:10.0.0.1:8123:2.4.0", HERE, "2.4.0"),
        ("1:10.0.0.1:8123", HERE, ""),
        ("1:b.example:8123:1:2", Address("b.example", 8123), "1:2"),
    ],
)
def test_identities(text: str, address: Address, version: str) -> None:
    found = BrokerIdentity.parse(text, 8124)
    assert (found.broker_id, found.address, found.tls_port, found.version) == (1, address, 8124, version)


@pytest.mark.parametrize("host", ["[::1]", "[fe80::1%eth0]", "[::ffff:1.2.3.4]"])
def test_an_ipv6_host_is_refused_because_java_clients_cannot_read_it(host: str) -> None:
    with pytest.raises(Refused, match="is an IPv6 address, and Java clients divide") as caught:
        BrokerIdentity.parse(f"1:{host}:8123:2.4.0", 8124)
    assert "IPv4 address, or a DNS name" in caught.value.refusal.text


def test_a_host_with_a_dot_at_its_end_is_refused() -> None:
    with pytest.raises(Refused, match="ends with a dot"):
        BrokerIdentity.parse("1:localhost.:8123:2.4.0", 8124)


@pytest.mark.parametrize("host", ["0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1"])
def test_an_address_that_is_no_single_machines_is_refused(host: str) -> None:
    with pytest.raises(Refused, match="unspecified, multicast, broadcast or reserved"):
        BrokerIdentity.parse(f"1:{host}:8123:2.4.0", 8124)


def test_a_version_is_short() -> None:
    assert BrokerIdentity.parse("1:h:8123:" + "v" * 128, 8124).version == "v" * 128
    with pytest.raises(Refused, match="has 129 characters, 128 are allowed"):
        BrokerIdentity.parse("1:h:8123:" + "v" * 129, 8124)
