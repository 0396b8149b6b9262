"""Brokers at a real Master: configuration pushed, topics made, restarts, quarrels."""

from __future__ import annotations

import asyncio
import itertools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import (
    AlreadyExistsError,
    BadRequestError,
    Code,
    ConfigError,
    MessageError,
    NotFoundError,
    UnavailableError,
    UntoldError,
)
from pytubemq.master.brokers import brokers
from pytubemq.master.brokers.configuration import changed_conf
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.model.records import DeployRecord, TopicProps, TopicRecord
from pytubemq.wire.protocol.messages.master import CloseRequestB2M, CloseResponseM2B
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import WAIT_MS, FakeBroker, FakeConsumer, FakeProducer, town
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_a_new_broker_is_entered_by_itself_and_gets_the_defaults() -> None:
    async with town() as t:
        broker = await t.peer(FakeBroker)
        answer = await broker.register()
        assert answer.success
        assert answer.take_conf_info
        assert answer.broker_default_conf_info == "1:true:true:1000:10000: :delete,168h:1:0:3:10:20000"
        assert answer.broker_topic_set_conf_info == ()
        assert (await t.master.brokers())[0].state == "starting"
        in_sync = await broker.heartbeat()
        assert not in_sync.take_conf_info
        assert in_sync.broker_default_conf_info is None
        assert (await t.master.brokers())[0].state == "online"
        assert (await t.master.health()).status == "healthy"


async def test_a_change_reaches_a_waiting_broker_and_create_returns_once_it_has_reported() -> None:
    async with town() as t:
        broker = await t.broker()
        held = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._brokers.held)
        creating = asyncio.create_task(t.master.create_topic("demo", 3, delete_policy="delete,72h"))
        pushed = await held
        assert pushed.take_conf_info
        assert pushed.need_report_data
        assert pushed.broker_topic_set_conf_info == ("demo:3: : : : : :delete,72h: :0: : : : : ",)
        assert not creating.done()
        assert "not reported by broker 1" in (await t.master.health()).reasons[0].why
        await broker.heartbeat()
        made = await creating
        assert (made.places[0].ready, made.delete_policy) == (True, "delete,72h")
        assert made.messages is None, "this Broker cannot be asked"
        assert "broker 1" in made.unreachable[0]


async def test_creating_a_topic_is_the_same_work_beside_few_topics_and_beside_many() -> None:
    calls, more = 10, 200
    async with town(topic_ready_timeout_s=60.0) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        names = (f"t{number}" for number in itertools.count())

        async def create(count: int) -> None:
            for name in itertools.islice(names, count):
                await t.master.create_topic(name, 10)

        async def work() -> int:
            """The calls of functions in some creations: of the Master's, the Broker's and the connection's."""
            events: list[str] = []
            sys.setprofile(lambda _frame, event, _argument: events.append(event))
            try:
                await create(calls)
            finally:
                sys.setprofile(None)
            return events.count("call")

        await create(calls)
        # The least of three, since the loop's own work depends on what comes together.
        few = min([await work() for _ in range(3)])
        await create(more)
        many = min([await work() for _ in range(3)])
        assert many - few < calls * more // 2, "nothing is called for each topic that is there already"
        serving.cancel()


async def test_a_broker_that_never_reports_is_named_and_the_topic_stays() -> None:
    async with town(topic_ready_timeout_s=0.02) as t:
        broker = await t.broker()
        with pytest.raises(UnavailableError, match="broker 1 did not report it"):
            await t.master.create_topic("demo", 3)
        await broker.heartbeat()
        await broker.heartbeat()
        assert (await t.master.topic("demo")).places[0].ready


async def test_a_broker_that_does_not_take_the_push_is_not_spun_with() -> None:
    async with town() as t:
        broker = await t.broker()
        broker.sync = (1, 1)
        first = await broker.heartbeat(wait_ms=WAIT_MS)
        assert first.take_conf_info
        broker.sync = (1, 1)
        held = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._brokers.held)
        assert (await held).take_conf_info


async def test_a_topic_that_cannot_be_made_is_refused() -> None:
    async with town(first_broker_wait_s=0.0) as t:
        with pytest.raises(UnavailableError, match="no Broker is online"):
            await t.master.create_topic("demo", 1)
        serving = asyncio.create_task((await t.broker()).serve())
        await t.master.create_topic("demo", 1)
        with pytest.raises(AlreadyExistsError, match=r"topic demo exists already\n.*--exist-ok"):
            await t.master.create_topic("demo", 1)
        for partitions in (0, 10_001):
            with pytest.raises(BadRequestError, match="partitions is"):
                await t.master.create_topic("other", partitions)
        with pytest.raises(BadRequestError, match="max_message_bytes is"):
            await t.master.create_topic("other", 1, max_message_bytes=(20 << 20) + 1)
        with pytest.raises(BadRequestError, match="not a delete policy: 'delete,3651d'"):
            await t.master.create_topic("other", 1, delete_policy="delete,3651d")
        with pytest.raises(MessageError, match="not a topic name"):
            await t.master.create_topic("9lives", 1)
        with pytest.raises(NotFoundError, match="topic 'other' does not exist"):
            await t.master.topic("other")
        with pytest.raises(UntoldError, match="whether group g exists cannot be determined"):
            await t.master.group("g")
        serving.cancel()


async def test_topics_survive_a_restart_and_are_pushed_again(tmp_path: Path) -> None:
    async with town(data_dir=tmp_path) as t:
        serving = asyncio.create_task((await t.broker()).serve())
        made = await t.master.create_topic("demo", 2)
        serving.cancel()
    async with town(data_dir=tmp_path) as t:
        assert [broker.state for broker in await t.master.brokers()] == ["away"]
        health = await t.master.health()
        assert health.status == "degraded"
        assert health.reasons[0].thing == "broker 1"
        broker = await t.peer(FakeBroker)
        assert (await broker.register()).broker_topic_set_conf_info == ("demo:2: : : : : : : :0: : : : : ",)
        await broker.heartbeat()
        found = await t.master.topic("demo")
        assert (found.created, found.places) == (made.created, made.places)


async def test_unknown_brokers_are_refused_when_the_settings_say_so() -> None:
    async with town(auto_register_brokers=False) as t:
        answer = await (await t.peer(FakeBroker)).register()
        assert (answer.err_code, answer.cur_broker_conf_id, answer.cls_config) == (400, None, None)
        assert "add it first" in answer.err_msg


async def test_a_second_broker_of_an_id_is_refused_while_the_first_is_there() -> None:
    async with town(lost_connection_grace_s=30.0) as t:
        first = await t.broker()
        second = await t.peer(FakeBroker, address=Address("127.0.0.1", 9999))
        refused = await second.register()
        assert refused.err_code == 400
        assert "known at 127.0.0.9:8123" in refused.err_msg
        await first.close()
        await until(lambda: t.master._brokers.runs[1].lost)
        assert (await second.register()).success
        assert (await t.master.brokers())[0].address == "127.0.0.1:9999"


@pytest.mark.parametrize("client_id", ["", "1", "x:127.0.0.1:1", "1:127.0.0.1", "1:h:p"])
async def test_a_client_id_that_is_no_brokers_is_400(client_id: str) -> None:
    async with town() as t:
        broker = await t.peer(FakeBroker)
        answer = await broker.register_as(client_id)
        assert answer.err_code == 400


async def test_who_is_not_registered_gets_411_and_a_closed_one_must_register_again() -> None:
    async with town() as t:
        broker = await t.broker()
        close = CloseRequestB2M(broker_id="1")
        assert (await broker.ask(close, CloseResponseM2B, Method.BROKER_CLOSE_B2M)).success
        assert (await broker.ask(close, CloseResponseM2B, Method.BROKER_CLOSE_B2M)).err_code == 411
        answer = await broker.heartbeat()
        assert (answer.err_code, answer.need_report_data, answer.conf_check_sum_id) == (411, True, -2)
        bad = await broker.heartbeat(broker_id="one")
        assert bad.err_code == 400


async def test_a_broker_with_a_failing_disk_is_not_produced_to() -> None:
    async with town() as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 1)
        serving.cancel()
        assert t.master._brokers.topics.publishing("demo")
        await broker.heartbeat(write_status_rpt=-1)
        assert not t.master._brokers.topics.publishing("demo")
        assert "trouble with its disk" in (await t.master.health()).reasons[0].why


async def test_a_master_closes_what_it_holds_and_closing_twice_is_fine() -> None:
    async with town() as t:
        broker = await t.broker()
        held = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._brokers.held)
        await t.master.close()
        assert (await held).success
        await t.master.close()


async def test_a_port_in_use_is_named() -> None:
    async with town() as t:
        second = MasterService(MasterSettings(listen=t.master.address))
        with pytest.raises(ConfigError, match="the port is in use"):
            await second.start()


async def test_a_master_enters_a_bounded_number_of_brokers_by_itself() -> None:
    async with town(max_brokers=1) as t:
        await t.broker(1)
        second = await t.peer(FakeBroker, broker_id=2)
        refused = await second.register()
        assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
        assert "1 are allowed" in refused.err_msg
        first = await t.peer(FakeBroker, broker_id=1)
        assert (await first.register()).success


async def test_partitions_beyond_the_record_are_shown_and_given_to_nobody() -> None:
    async with town() as t:
        broker = await t.broker()
        creating = asyncio.create_task(t.master.create_topic("demo", 2))
        await until(lambda: "demo" in t.master._catalogue.topics)
        await broker.heartbeat()
        broker.topics = tuple(text.replace("demo:2:", "demo:9000:") for text in broker.topics)
        await broker.heartbeat()
        await creating
        consumer, producer = await t.peer(FakeConsumer), await t.peer(FakeProducer)
        await consumer.register()
        event = (await consumer.heartbeat()).event
        assert event is not None
        assert [text.rpartition(":")[2] for text in event.subscribe_info] == ["0", "1"]
        await producer.register()
        assert (await producer.heartbeat("demo")).topic_infos == ("demo#1:2:1#",)
        place = (await t.master.topic("demo")).places[0]
        assert place.ready
        assert place.why == (
            "broker 1 has 8998 partitions more than the record: they are not written or read until the record has them"
        )
        broker.topics = tuple(text.replace("demo:9000:", "demo:1:") for text in broker.topics)
        broker.report = True
        await broker.heartbeat()
        assert (await producer.heartbeat("demo")).topic_infos == ("demo#1:1:1#",), "nor those that it does not report"


async def test_a_broker_that_registers_costs_the_others_no_new_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[int] = []

    def change(*given: Any) -> Any:
        changed.append(given[1])
        return changed_conf(*given)

    monkeypatch.setattr(brokers, "changed_conf", change)
    async with town() as t:
        for broker_id in range(1, 7):
            await t.broker(broker_id)
        assert changed == []


async def test_a_change_reaches_the_brokers_that_it_concerns() -> None:
    async with town() as t:
        for broker_id in (1, 2):
            await t.broker(broker_id)
        catalogue, runs = t.master.catalogue, t.master.broker_room.runs
        before = [run.conf for run in runs.values()]
        async with catalogue.lock:
            await catalogue.apply([TopicRecord("demo"), DeployRecord("demo", 2)])
        assert [run.conf is conf for run, conf in zip(runs.values(), before, strict=True)] == [True, False]
        before = [run.conf for run in runs.values()]
        async with catalogue.lock:
            await catalogue.apply([TopicRecord("demo", max_message_bytes=2 << 20)])
        assert [run.conf is conf for run, conf in zip(runs.values(), before, strict=True)] == [True, False]
        async with catalogue.lock:
            await catalogue.apply([replace(catalogue.cluster, props=TopicProps(num_partitions=3))])
        assert [run.conf.defaults.startswith("3:") for run in runs.values()] == [True, True]
        async with catalogue.lock:
            await catalogue.apply([replace(catalogue.brokers[1], props=TopicProps(num_partitions=4))])
        assert [run.conf.defaults[0] for run in runs.values()] == ["4", "3"]
