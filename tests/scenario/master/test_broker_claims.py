"""Who speaks for a Broker: forged heartbeats, records taken and taken back, unused Brokers, too large reports."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.master.brokers import configuration, leases, reported_topics
from pytubemq.master.brokers.absent_brokers import author_of_report, is_unused
from pytubemq.master.brokers.registration import unknown_topics
from pytubemq.model.ids import Address
from pytubemq.model.limits import FOREIGN_CONNECTION_GRACE_S, MAX_BROKERS_PER_CONNECTION, MAX_STRAY_PARTITIONS
from pytubemq.model.records import BrokerRecord, DeployRecord, ManageStatus, Record, TopicRecord
from pytubemq.storage.metastore.sqlite import SqliteMetaStore
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import CloseRequestB2M, CloseResponseM2B, RegisterResponseM2B
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import WAIT_MS, FakeBroker, FakeProducer, Town, town
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.anyio

ELSEWHERE = Address("127.0.0.7", 9123)


async def with_topic(t: Town) -> FakeBroker:
    """A Broker that holds the topic `demo`."""
    broker = await t.broker()
    serving = asyncio.create_task(broker.serve())
    await t.master.create_topic("demo", 2)
    serving.cancel()
    return broker


async def gone(t: Town, broker: FakeBroker) -> None:
    await broker.close()
    await until(lambda: t.master.broker_room.runs[1].lost)


# --- heartbeats and farewells -------------------------------------------------------------------------------------


async def test_a_heartbeat_over_another_connection_changes_nothing_and_gets_411() -> None:
    async with town() as t:
        await with_topic(t)
        stranger = await t.peer(FakeBroker, capabilities=Capability(0))
        for faults in ({"read_status_rpt": -1, "write_status_rpt": -1}, {"broker_online": False}):
            answer = await stranger.heartbeat(**faults)
            assert (answer.err_code, answer.need_report_data) == (411, True)
        assert t.master.catalogue.brokers[1].manage_status is ManageStatus.ONLINE
        assert t.master.broker_room.topics.publishing("demo")


async def test_a_farewell_over_another_connection_changes_nothing_and_gets_411() -> None:
    async with town() as t:
        broker = await with_topic(t)
        stranger = await t.peer(FakeBroker)
        close = CloseRequestB2M(broker_id="1")
        assert (await stranger.ask(close, CloseResponseM2B, Method.BROKER_CLOSE_B2M)).err_code == 411
        assert t.master.broker_room.topics.publishing("demo")
        assert (await broker.heartbeat()).success


async def test_one_whose_connection_broke_gets_411_over_the_next_and_registers_again() -> None:
    async with town(lost_connection_grace_s=30.0) as t:
        first = await with_topic(t)
        await gone(t, first)
        again = await t.peer(FakeBroker)
        again.sync, again.topics, again.defaults = first.sync, first.topics, first.defaults
        assert (await again.heartbeat()).err_code == 411
        assert (await again.register()).success
        assert (await again.heartbeat()).success
        assert t.master.broker_room.topics.publishing("demo")


async def test_who_took_the_place_of_a_live_one_does_not_change_its_status_at_once() -> None:
    async with town() as t:
        broker = await with_topic(t)
        held = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master.broker_room.held)
        forger = await t.peer(FakeBroker, capabilities=Capability(0))
        assert (await forger.register()).success, "from the same machine it looks like a restart"
        assert (await held).err_code == 411
        await forger.heartbeat(read_status_rpt=-1, write_status_rpt=-1)
        assert t.master.catalogue.brokers[1].manage_status is ManageStatus.ONLINE
        run = t.master.broker_room.runs[1]
        assert run.settled_s >= run.heard_s + FOREIGN_CONNECTION_GRACE_S - 1
        assert (await broker.register()).success, "and the honest one takes it back"


# --- records that are taken ---------------------------------------------------------------------------------------


async def test_a_record_that_was_taken_during_a_restart_is_taken_back() -> None:
    async with town(lost_connection_grace_s=30.0) as t:
        first = await with_topic(t)
        await gone(t, first)
        taker = await t.peer(FakeBroker, address=ELSEWHERE)
        assert (await taker.register()).success
        await taker.heartbeat()
        again = await t.peer(FakeBroker)
        assert (await again.register()).success
        assert t.master.catalogue.brokers[1].address == Address("127.0.0.9", 8123)
        assert (await taker.heartbeat()).err_code == 411
        assert (await taker.register()).err_code == 400


async def test_who_brings_the_topics_takes_the_record_from_who_has_none_of_them(tmp_path: Path) -> None:
    async with town(data_dir=tmp_path) as t:
        first = await with_topic(t)
        held = (first.defaults or "", first.topics)
    async with town(data_dir=tmp_path) as t:  # a restart: where the record was before is not known any more
        taker = await t.peer(FakeBroker, address=ELSEWHERE)
        assert (await taker.register()).success
        await taker.heartbeat()
        bare = await t.peer(FakeBroker)
        assert (await bare.register()).success, "it comes back to where the record had it"
        bringer = await t.peer(FakeBroker, address=Address("127.0.0.8", 8123), reports=held)
        assert (await bringer.register()).success
        assert (await bare.register()).err_code == 400, "now there is one that has the topics"


async def test_who_holds_a_topic_of_its_own_keeps_the_record() -> None:
    async with town(lost_connection_grace_s=30.0) as t:
        first = await with_topic(t)
        await gone(t, first)
        taker = await t.peer(FakeBroker, address=ELSEWHERE)
        await taker.register()
        await taker.heartbeat()
        serving = asyncio.create_task(taker.serve())
        await t.master.create_topic("other", 1)
        serving.cancel()
        again = await t.peer(FakeBroker)
        assert (await again.register()).err_code == 400


# --- unused Brokers -----------------------------------------------------------------------------------------------


async def test_a_topic_is_not_placed_on_brokers_that_never_took_a_configuration() -> None:
    async with town(foreign_topic_timeout_s=600.0, topic_ready_timeout_s=600.0) as t:
        honest = await t.broker(1)
        for broker_id in range(2, 6):
            fake = await t.peer(
                FakeBroker,
                capabilities=Capability(0),
                broker_id=broker_id,
                address=Address("127.0.0.9", 9000 + broker_id),
            )
            await fake.register()
            fake.sync = (1, 1)  # online, and never takes what it is sent
            await fake.heartbeat()
        serving = asyncio.create_task(honest.serve())
        made = await t.master.create_topic("demo", 1)
        serving.cancel()
        assert [place.broker for place in made.places] == [1]


async def test_unused_brokers_that_stay_away_are_forgotten_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytubemq.master.brokers.absent_brokers.UNUSED_BROKER_S", 0.0)
    async with town(data_dir=tmp_path, lost_connection_grace_s=0.01) as t:
        holder = await with_topic(t)
        stranger = await t.broker(2)
        present = await t.broker(3)
        await holder.close()
        await stranger.close()
        await until(lambda: 2 not in t.master.catalogue.brokers)
        assert set(t.master.catalogue.brokers) == {1, 3}
        assert (await present.heartbeat()).success
    async with town(data_dir=tmp_path, client_timeout_s=60.0) as t:
        assert 2 not in t.master.catalogue.brokers


async def test_the_number_of_absent_unused_brokers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.master.brokers.absent_brokers.MAX_ABSENT_UNUSED_BROKERS", 2)
    async with town(lost_connection_grace_s=0.01) as t:
        for broker_id in range(1, 6):
            await (await t.broker(broker_id)).close()
            await until(lambda: not t.master.broker_room.runs)
        await until(lambda: len(t.master.catalogue.brokers) == 2)


async def test_an_absent_unused_broker_makes_room_for_a_new_one() -> None:
    async with town(max_brokers=2, lost_connection_grace_s=0.01) as t:
        holder = await with_topic(t)
        await (await t.broker(2)).close()
        await until(lambda: 2 not in t.master.broker_room.runs)
        await until(lambda: t.master.broker_room._absent_brokers.unused())
        third = await t.peer(FakeBroker, broker_id=3, address=ELSEWHERE)
        assert (await third.register()).success
        assert set(t.master.catalogue.brokers) == {1, 3}
        assert (await holder.heartbeat()).success


async def test_one_connection_registers_a_bounded_number_of_brokers() -> None:
    async with town() as t:
        peer = await t.peer(FakeBroker)
        for broker_id in range(1, MAX_BROKERS_PER_CONNECTION + 2):
            answer = await peer.register_as(f"{broker_id}:127.0.0.9:{9000 + broker_id}:1")
        assert answer.err_code == 400
        assert "clients of this kind" in answer.err_msg


# --- what a registration and a report may say ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "client_id",
    [
        *("0:h:1", "9999999999:h:1", "2147483648:h:1", "1:h:0", "1:h:99999", "1:a b:1", "1:a..b:1", "1:a#b:1"),
        *("1:a\x1b[2Jb:1", "1:a\nb:1", "1:a\u202eb:1", "1:[::g]:1", "1:10.1.2:1", "1:h:1:v\x1b[2J", "1::1:8123"),
        *("1:[::1]:1", "1:0.0.0.0:1", "1:224.0.0.1:1", "1:255.255.255.255:1", "1:h:1:" + "v" * 900),
    ],
)
async def test_a_broker_that_nobody_could_connect_to_is_not_entered(client_id: str) -> None:
    async with town() as t:
        broker = await t.peer(FakeBroker)
        answer = await broker.register_as(client_id)
        assert answer.err_code == 400
        assert answer.err_msg.isprintable()
        assert not t.master.catalogue.brokers


async def test_a_tls_port_is_checked_too() -> None:
    async with town() as t:
        broker = await t.peer(FakeBroker, tls_port=99_999)
        assert "not a TLS port" in (await broker.register()).err_msg
        assert not t.master.catalogue.brokers


async def test_a_record_whose_host_clients_cannot_use_is_sent_to_nobody(tmp_path: Path) -> None:
    """An older version took an IPv6 host."""
    store = SqliteMetaStore(tmp_path / "meta.db")
    store.apply([BrokerRecord(7, Address("::1", 8123), 8124), BrokerRecord(8, Address("10.0.0.8", 8123), 8124)], [])
    store.close()
    async with town(data_dir=tmp_path) as t:
        producer = await t.peer(FakeProducer)
        assert (await producer.register()).broker_infos == ("8:10.0.0.8: ",)


@pytest.mark.parametrize("topic", ["demo:1000000", "demo:10000: : : : : : :2", "demo:10000: : : : : : :1000000000"])
async def test_a_report_of_a_million_partitions_is_refused_before_anything_is_made_of_it(topic: str) -> None:
    async with town() as t:
        broker = await with_topic(t)
        fields = topic.split(":")
        text = ":".join([*fields, *[" "] * (9 - len(fields)), "0", *[" "] * 5])
        answer = await broker.heartbeat(take_conf_info=True, broker_topic_set_conf_info=(text,))
        assert answer.err_code == 400
        assert "a Broker takes 1 to 10000 partitions" in answer.err_msg
        run = t.master.broker_room.runs[1]
        assert run.topics["demo"].partitions == 2


async def test_a_registration_with_a_bad_report_enters_nobody() -> None:
    async with town() as t:
        broker = await t.peer(FakeBroker, reports=("", ("demo:1000000: : : : : : : :0: : : : : ",)))
        answer = await broker.register()
        assert answer.err_code == 400
        assert "1000000 partitions" in answer.err_msg
        assert not t.master.catalogue.brokers


async def test_many_topics_that_are_each_widened_a_little_too_much_are_refused_in_all() -> None:
    async with town() as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        for name in ("a", "b", "c"):
            await t.master.create_topic(name, 1)
        serving.cancel()
        texts = tuple(f"{name}:5000: : : : : : : :0: : : : : " for name in ("a", "b", "c"))
        answer = await broker.heartbeat(take_conf_info=True, broker_topic_set_conf_info=texts)
        assert answer.err_code == 400
        assert "14997 more partitions are reported than the topics have" in answer.err_msg


# --- records of an older version ----------------------------------------------------------------------------------


async def test_a_record_that_no_peer_can_read_is_named_and_told_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with town(data_dir=tmp_path) as t:
        await with_topic(t)
        record = t.master.catalogue.brokers[1]
        bad = [
            replace(record, broker_id=2, address=Address("10.1.2.3", 99_999)),
            replace(record, broker_id=3, address=Address("a..b\x1b[2J", 1)),
        ]
        await t.master.catalogue.apply(bad)
    async with town(data_dir=tmp_path) as t:
        assert set(t.master.catalogue.brokers) == {1}
        named = [record.getMessage() for record in caplog.records if "cannot be used" in record.getMessage()]
        assert len(named) == 2
        assert "broker 2" in named[0]
        assert "99999" in named[0]
        again = await t.peer(FakeBroker, broker_id=2, address=ELSEWHERE)
        assert (await again.register()).success, "one that can be read takes its place"
        assert set(t.master.catalogue.brokers) == {1, 2}


async def test_a_topic_reported_twice_is_refused_by_its_name() -> None:
    async with town() as t:
        text = "twin:1: : : : : : : :0: : : : : "
        broker = await t.peer(FakeBroker, reports=("", ("other" + text[4:], text, text)))
        answer = await broker.register()
        assert (answer.err_code, answer.err_msg) == (400, "topic twin is reported twice; report each topic once")
        assert not t.master.catalogue.brokers


async def test_a_heartbeat_reports_no_more_topics_than_the_records_explain() -> None:
    async with town() as t:
        broker = await with_topic(t)
        texts = tuple(f"t{number}:1: : : : : : : :0: : : : : " for number in range(MAX_STRAY_PARTITIONS + 2))
        answer = await broker.heartbeat(take_conf_info=True, broker_topic_set_conf_info=texts)
        assert answer.err_code == 400
        assert "more partitions are reported than the topics have" in answer.err_msg
        assert set(t.master.broker_room.runs[1].topics) == {"demo"}
        few = ("a:9000: : : : : : : :0: : : : : ", "b:9000: : : : : : : :0: : : : : ")
        answer = await broker.heartbeat(take_conf_info=True, broker_topic_set_conf_info=few)
        assert (answer.err_code, "18000 more partitions" in answer.err_msg) == (400, True)


async def test_topics_that_no_record_has_are_bounded_over_all_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.master.brokers.registration.unknown_topics.MAX_UNKNOWN_TOPICS", 5)
    async with town() as t:

        async def holder(broker_id: int) -> RegisterResponseM2B:
            texts = tuple(f"t{number}:1: : : : : : : :0: : : : : " for number in range(3))
            address = Address("127.0.0.9", 8122 + broker_id)
            broker = await t.peer(FakeBroker, broker_id=broker_id, address=address, reports=("", texts))
            return await broker.register()

        assert (await holder(1)).success
        answer = await holder(2)
        assert answer.err_code == 400
        assert "broker 2 reports 3 topics that no record has, other Brokers 3, and 5 are allowed" in answer.err_msg


async def test_topics_that_cannot_be_read_are_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async with town() as t:
        texts = tuple(f"t-{number}:1: : : : : : : :0: : : : : " for number in range(100))
        broker = await t.peer(FakeBroker, reports=("", texts))
        assert (await broker.register()).success
        assert not t.master.broker_room.runs[1].unknown
    lines = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert len(lines) == 1
    assert "broker 1 reports 100 topics that cannot be read and are ignored" in lines[0]
    assert "t-0" in lines[0]


@pytest.mark.parametrize("known", [False, True])
async def test_the_loop_runs_while_a_long_registration_is_read(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    monkeypatch.setattr("pytubemq.master.brokers.slices.REPORT_SLICE", 10)
    work = {
        reported_topics: ["parse_broker_topic_conf", "within_record"],
        unknown_topics: ["parse_broker_topic_conf"],
        leases: ["parse_subscribe_info"],
        configuration.TopicFormatter: ["strings"],
    }
    turn = 0
    done: Counter[tuple[str, int]] = Counter()

    def watch(owner: object, name: str) -> None:
        before = getattr(owner, name)

        def counted(*args: Any) -> Any:
            done[f"{owner} {name}", turn] += 1
            return before(*args)

        monkeypatch.setattr(owner, name, counted)

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async with town() as t:
        names = [f"t{number}" for number in range(200)]
        texts = tuple(f"{name}:1: : : : : : : :0: : : : : " for name in names)
        if known:
            records: list[Record] = [BrokerRecord(1, FakeBroker.address), *map(TopicRecord, names)]
            records += [DeployRecord(name, 1) for name in names]
            await t.master.catalogue.apply(records)
        reads = tuple(f"c@g#1:127.0.0.9:8123#{name}:0" for name in names)
        broker = await t.peer(FakeBroker, reports=("", texts), leases=reads)
        for owner, found in work.items():
            for name in found:
                watch(owner, name)
        counting = asyncio.create_task(count())
        for _ in range(2):
            assert (await broker.register()).success
        counting.cancel()
    assert sum(done.values()) >= 1_000
    assert max(done.values()) <= 10


async def test_a_topic_that_is_created_during_a_long_registration_is_in_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytubemq.master.brokers.slices.REPORT_SLICE", 1)
    async with town() as t:
        catalogue = t.master.catalogue
        names = [f"t{number}" for number in range(20)]
        places = [DeployRecord(name, 1) for name in names]
        await catalogue.apply([BrokerRecord(1, FakeBroker.address), *map(TopicRecord, [*names, "new"]), *places])
        before, made = configuration.TopicFormatter.strings, [0]

        def change_midway(self: configuration.TopicFormatter, deploy: DeployRecord, size: int) -> Any:
            made[0] += 1
            if made[0] == 10:
                changing.append(asyncio.create_task(catalogue.apply([DeployRecord("new", 1)], [places[0], places[19]])))
            return before(self, deploy, size)

        changing: list[asyncio.Task[None]] = []
        monkeypatch.setattr(configuration.TopicFormatter, "strings", change_midway)
        broker = await t.peer(FakeBroker)
        assert (await broker.register()).success
        await asyncio.gather(*changing)
        assert sorted(text.partition(":")[0] for text in t.master.broker_room.runs[1].conf.topics) == sorted(
            ["new", *names[1:19]]
        )


async def test_a_foreign_broker_whose_connection_broke_makes_way_at_once() -> None:
    async with town() as t:
        await with_topic(t)
        old = t.peers[0]
        fake = await t.peer(FakeBroker, capabilities=Capability(0), address=ELSEWHERE)
        await old.close()
        await until(lambda: t.master.broker_room.runs[1].lost)
        assert (await fake.register()).success
        await fake.close()
        await until(lambda: t.master.broker_room.runs[1].lost)
        real = await t.peer(FakeBroker, address=Address("127.0.0.9", 8123))
        assert (await real.register()).success


async def test_no_topic_is_placed_on_a_stranger_that_left() -> None:
    async with town() as t:
        await with_topic(t)
        stranger = await t.broker(2)
        assert t.master.broker_room.topics.can_take_topics(2)
        await stranger.close()
        await until(lambda: t.master.broker_room.runs[2].lost)
        assert not t.master.broker_room.topics.can_take_topics(2)
        assert t.master.broker_room.topics.can_take_topics(1)


@pytest.mark.parametrize(("read", "write"), [(0, -1), (0, 1), (1, 1), (-1, -1)])
async def test_a_stranger_that_reports_faults_stays_a_stranger(read: int, write: int) -> None:
    async with town(max_brokers=2, lost_connection_grace_s=0.01) as t:
        await with_topic(t)
        stranger = await t.peer(FakeBroker, capabilities=Capability(0), broker_id=2, address=ELSEWHERE)
        assert (await stranger.register()).success
        await stranger.heartbeat(read_status_rpt=read, write_status_rpt=write)
        await t.master.broker_room.upkeep.close()
        record = t.master.catalogue.brokers[2]
        assert (record.manage_status.text, record.stamp.modify_user) == ("online", "autoRegister")
        assert 2 in t.master.broker_room.faults.forbidden, "in memory only"
        assert not t.master.broker_room.topics.can_take_topics(2)
        await stranger.ask(CloseRequestB2M(broker_id="2"), CloseResponseM2B, Method.BROKER_CLOSE_B2M)
        await until(lambda: t.master.broker_room._absent_brokers.unused())
        third = await t.peer(FakeBroker, broker_id=3, address=Address("127.0.0.9", 9300))
        assert (await third.register()).success
        assert set(t.master.catalogue.brokers) == {1, 3}


async def test_records_that_earlier_versions_changed_for_reports_of_strangers_are_unused_as_well() -> None:
    async with town() as t:
        await t.broker(1)
        record = t.master.catalogue.brokers[1]
        reported = replace(record, stamp=replace(record.stamp, modify_user="Broker AutoReport"))
        changed = replace(record, stamp=replace(record.stamp, modify_user="alice"))
        assert is_unused(t.master.catalogue, reported)
        assert not is_unused(t.master.catalogue, changed)
        assert author_of_report(changed, "Broker AutoReport") == "alice", "what an operator changed stays theirs"


async def test_connected_strangers_of_the_host_with_most_make_room_for_another_host() -> None:
    async with town(max_brokers=6) as t:
        await with_topic(t)
        strangers = {broker_id: await t.broker(broker_id) for broker_id in range(2, 7)}
        for broker_id in strangers:
            t.master.broker_room.runs[broker_id].source = "10.0.0.9"
        honest = await t.peer(FakeBroker, broker_id=7, address=ELSEWHERE)
        assert (await honest.register()).success
        assert set(t.master.catalogue.brokers) == {1, 2, 3, 4, 5, 7}, "the last one of that host went"
        assert (await strangers[2].heartbeat()).success
        second = await t.peer(FakeBroker, broker_id=8, address=Address("127.0.0.9", 9300))
        assert (await second.register()).success
        assert set(t.master.catalogue.brokers) == {1, 2, 3, 4, 7, 8}
        third = await t.peer(FakeBroker, broker_id=9, address=Address("127.0.0.9", 9400))
        assert (await third.register()).err_code == 400, "by now each host has a fair share"
