"""Producers at a real Master: where their topics are, told when it changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import Code
from pytubemq.master.settings import MasterSettings
from pytubemq.model.limits import MAX_REGISTRATION_TEXT_BYTES
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import (
    ApprovedClientConfig,
    CloseRequestP2M,
    CloseResponseM2P,
    HeartRequestP2M,
    HeartResponseM2P,
    RegisterRequestC2MV2,
    RegisterRequestP2M,
    RegisterResponseM2CV2,
    RegisterResponseM2P,
)
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import WAIT_MS, FakeConsumer, FakeProducer, town
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_a_waiting_producer_hears_of_its_topic_at_once() -> None:
    async with town() as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        producer = await t.peer(FakeProducer)
        await producer.register()
        assert (await producer.heartbeat("demo", wait_ms=WAIT_MS)).topic_infos == ()
        waiting = asyncio.create_task(producer.heartbeat("demo", wait_ms=WAIT_MS))
        await until(lambda: t.master._producers.held)
        await t.master.create_topic("demo", 3)
        assert (await waiting).topic_infos == ("demo#1:3:1#",)
        serving.cancel()


async def test_a_waiting_producer_hears_of_a_new_broker_and_of_one_that_is_gone() -> None:
    async with town(lost_connection_grace_s=0.0) as t:
        producer = await t.peer(FakeProducer)
        await producer.register()
        first = await producer.heartbeat("demo", wait_ms=WAIT_MS)
        waiting = asyncio.create_task(producer.heartbeat("demo", wait_ms=WAIT_MS))
        broker = await t.broker(2)
        answer = await waiting
        assert answer.broker_infos == ("2:127.0.0.9:8124",)
        assert answer.broker_check_sum > first.broker_check_sum
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 3)
        assert (await producer.heartbeat("demo", wait_ms=WAIT_MS)).topic_infos == ("demo#2:3:1#",)
        waiting = asyncio.create_task(producer.heartbeat("demo", wait_ms=WAIT_MS))
        await broker.close()
        gone = await waiting
        assert gone.topic_infos == ()
        assert gone.broker_infos == ()
        await asyncio.gather(serving, return_exceptions=True)


async def test_who_asks_where_a_topic_is_deployed_is_told_of_brokers_that_are_away() -> None:
    async with town(lost_connection_grace_s=0.0) as t:
        first, second = await t.broker(1), await t.broker(2)
        serving = [asyncio.create_task(broker.serve()) for broker in (first, second)]
        await t.master.create_topic("demo", 3)
        producer = await t.peer(FakeProducer)
        await producer.register()
        assert (await producer.heartbeat("demo", want_deployed=True)).topic_infos == ("demo#1:3:1,2:3:1#",)
        await second.close()
        await until(lambda: 2 not in t.master._brokers.runs)
        assert (await producer.heartbeat("demo")).topic_infos == ("demo#1:3:1#",)
        producer.checksum = -1
        answer = await producer.heartbeat("demo", want_deployed=True)
        assert answer.topic_infos == ("demo#1:3:1,2:3:1#",)
        assert len(answer.broker_infos) == 2
        await asyncio.gather(first.close(), *serving, return_exceptions=True)


async def test_after_a_restart_of_the_master_the_deployment_is_told_before_the_brokers_are_back(
    tmp_path: Path,
) -> None:
    async with town(data_dir=tmp_path) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 3)
        serving.cancel()
    async with town(data_dir=tmp_path) as t:
        producer = await t.peer(FakeProducer)
        await producer.register()
        assert (await producer.heartbeat("demo", wait_ms=WAIT_MS, want_deployed=True)).topic_infos == ("demo#1:3:1#",)


async def test_a_topic_of_its_own_size_says_so() -> None:
    async with town() as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("big", 1, max_message_bytes=4 << 20)
        producer = await t.peer(FakeProducer)
        await producer.register()
        assert (await producer.heartbeat("big")).topic_infos == (f"big#1:1:1#{4 << 20}",)
        serving.cancel()


async def test_a_producer_without_waiting_is_answered_the_same_again() -> None:
    async with town() as t:
        await t.broker()
        java = await t.peer(FakeProducer, capabilities=Capability(0))
        await java.register()
        first, second = await java.heartbeat("demo"), await java.heartbeat("demo")
        assert first == second
        assert second.broker_infos == ()
        java.checksum = -1
        assert (await java.heartbeat("demo")).broker_infos == ("1:127.0.0.9: ",)


async def test_after_a_restart_of_the_master_a_waiting_producer_is_spared_the_emptiness(tmp_path: Path) -> None:
    async with town(data_dir=tmp_path) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 1)
        serving.cancel()
    async with town(data_dir=tmp_path) as t:
        producer = await t.peer(FakeProducer)
        assert (await producer.heartbeat("demo")).err_code == 411
        await producer.register()
        waiting = asyncio.create_task(producer.heartbeat("demo", wait_ms=WAIT_MS))
        await t.broker()
        assert (await waiting).topic_infos == ("demo#1:1:1#",)


async def test_a_silent_producer_and_one_of_ours_that_broke_off_are_forgotten() -> None:
    async with town(client_timeout_s=0.05, lost_connection_grace_s=0.0) as t:
        silent = await t.peer(FakeProducer, capabilities=Capability(0))
        await silent.register()
        await until(lambda: not t.master._producers.by_id)
        assert (await silent.heartbeat()).err_code == 411
    async with town(producer_timeout_s=0.05) as t:
        silent = await t.peer(FakeProducer, capabilities=Capability(0))
        await silent.register()
        await until(lambda: not t.master._producers.by_id)
    async with town(lost_connection_grace_s=0.0) as t:
        ours = await t.peer(FakeProducer)
        await ours.register()
        await ours.close()
        await until(lambda: not t.master._producers.by_id)


async def test_a_close_forgets_and_an_unknown_one_may_close() -> None:
    async with town() as t:
        producer = await t.peer(FakeProducer)
        await producer.register()
        for _ in range(2):
            request = CloseRequestP2M(client_id=producer.client_id)
            assert (await producer.ask(request, CloseResponseM2P, Method.PRODUCER_CLOSE_P2M)).success
        answer = await producer.heartbeat()
        assert (answer.err_code, answer.broker_check_sum, answer.appd_config) == (411, -1, None)


@pytest.mark.parametrize(
    "more",
    [
        {"client_id": ""},
        {"host_name": "h" * 257},
        {"topic_list": ("__offset_history__",)},
        {"topic_list": tuple(f"t{n}" for n in range(1025))},
    ],
)
async def test_what_is_not_allowed_is_400(more: dict[str, Any]) -> None:
    async with town() as t:
        producer = await t.peer(FakeProducer)
        fields: dict[str, Any] = {"client_id": "p", "broker_check_sum": -1, "host_name": "h"}
        fields |= more
        registered = await producer.ask(RegisterRequestP2M(**fields), RegisterResponseM2P, Method.PRODUCER_REGISTER_P2M)
        beaten = await producer.ask(HeartRequestP2M(**fields), HeartResponseM2P, Method.PRODUCER_HEARTBEAT_P2M)
        assert (registered.err_code, beaten.err_code) == (400, 400)
        assert registered.err_msg


async def test_the_size_limit_is_told_to_who_does_not_have_it() -> None:
    async with town() as t:
        producer = await t.peer(FakeProducer)
        fields: dict[str, Any] = {"client_id": "p", "broker_check_sum": -1, "host_name": "h"}
        for known, size in ((None, 1 << 20), (ApprovedClientConfig(config_id=-2), None)):
            request = RegisterRequestP2M(**fields, appd_config=known)
            answer = await producer.ask(request, RegisterResponseM2P, Method.PRODUCER_REGISTER_P2M)
            assert answer.appd_config == ApprovedClientConfig(config_id=-2, max_msg_size=size)


async def test_registrations_are_bounded_and_places_become_free_again() -> None:
    async with town(max_clients=2, max_clients_per_connection=2) as t:
        first, second, third = [await t.peer(FakeProducer, client_id=f"127.0.0.1-1-1-{n}-1.0") for n in range(3)]
        assert (await first.register()).success
        assert (await second.register()).success
        refused = await third.register()
        assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
        assert "2 clients, 2 are allowed" in refused.err_msg
        assert (await first.register()).success
        closed = await second.ask(
            CloseRequestP2M(client_id=second.client_id), CloseResponseM2P, Method.PRODUCER_CLOSE_P2M
        )
        assert closed.success
        assert (await third.register()).success


async def test_one_connection_carries_a_bounded_number_of_producers() -> None:
    assert MasterSettings().max_clients_per_connection == 10_000, "a gateway has thousands of producers in one Tube"
    async with town(max_clients_per_connection=2) as t:
        producer = await t.peer(FakeProducer)
        answers = []
        for number in range(3):
            producer.client_id = f"127.0.0.1-1-1-{number}-1.0"
            answers.append(await producer.register())
        assert [answer.success for answer in answers] == [True, True, False]
        assert "has 2 clients" in answers[2].err_msg


async def test_what_producers_say_is_bounded_in_bytes() -> None:
    names = [f"topic_{number:050}" for number in range(100)]
    async with town(max_client_state_bytes=2_000) as t:
        producer, late = [await t.peer(FakeProducer, client_id=f"127.0.0.1-1-1-{n}-1.0") for n in range(2)]
        assert (await producer.register()).success
        again = RegisterRequestP2M(
            client_id=producer.client_id, broker_check_sum=-1, host_name="h", topic_list=tuple(names)
        )
        for refused in (
            await producer.heartbeat(*names),
            await producer.ask(again, RegisterResponseM2P, Method.PRODUCER_REGISTER_P2M),
        ):
            assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
            assert "2000 are allowed" in refused.err_msg
        assert t.master.producer_room.by_id[producer.client_id].topics == (), "nothing of it is remembered"
        (reason,) = [reason for reason in (await t.master.health()).reasons if reason.thing == "clients"]
        assert "refused within the last 60 s" in reason.why
        assert (await producer.heartbeat("demo")).success, "who is in stays in"
        assert (await late.register()).success


async def test_names_of_topics_that_do_not_exist_are_not_collected() -> None:
    async with town() as t:
        producer = await t.peer(FakeProducer)
        assert (await producer.register()).success
        refused = await producer.heartbeat("x" * 65)
        assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
        assert "has 65 characters, topics have at most 64" in refused.err_msg
        assert (await producer.heartbeat("demo", *(f"later{number}" for number in range(100)))).success
        known = t.master.producer_room.by_id[producer.client_id].topics
        assert known == ("demo", *(f"later{number}" for number in range(15))), "the first few"


async def test_a_flood_of_registrations_keeps_nobody_out_and_shows() -> None:
    async with town(max_clients=20) as t:
        flood = await t.peer(FakeProducer)
        for number in range(20):
            flood.client_id = f"127.0.0.1-1-1-{number}-1.0"
            assert (await flood.register()).success
        (reason,) = [reason for reason in (await t.master.health()).reasons if reason.thing == "clients"]
        assert "all 20 places for producers and consumers are taken" in reason.why
        honest = [await t.peer(FakeProducer, client_id=f"127.0.0.1-2-2-{number}-1.0") for number in range(5)]
        for producer in honest:
            assert (await producer.register()).success
        for producer in honest:
            assert (await producer.heartbeat("demo")).success
        flood.client_id = "127.0.0.1-1-1-19-1.0"
        assert (await flood.heartbeat("demo")).err_code == Code.HB_NO_NODE, "it made room, and may register again"
        flood.client_id = "127.0.0.1-1-1-0-1.0"
        assert (await flood.heartbeat("demo")).success


async def test_what_a_registration_says_beside_topics_and_partitions_is_bounded() -> None:
    async with town() as place:
        producer, consumer = await place.peer(FakeProducer), await place.peer(FakeConsumer)
        long = "j" * (MAX_REGISTRATION_TEXT_BYTES + 1)
        answer = await producer.ask(
            RegisterRequestP2M(client_id="p", broker_check_sum=-1, host_name="h", jdk_version=long),
            RegisterResponseM2P,
            Method.PRODUCER_REGISTER_P2M,
        )
        assert (answer.success, answer.err_code) == (False, 400)
        assert "beside its topics, filters and partitions" in answer.err_msg
        refused = await consumer.register(session_key=long)
        assert (refused.success, refused.err_code) == (False, 400)
        assert "beside its topics, filters and partitions" in refused.err_msg
        balanced = await consumer.ask(
            RegisterRequestC2MV2(
                client_id="c", group_name="g", host_name="h", source_count=1, node_id=0, jdk_version=long
            ),
            RegisterResponseM2CV2,
            Method.CONSUMER_REGISTER_C2M_V2,
        )
        assert balanced.err_code == 400
        assert "beside its topics, filters and partitions" in balanced.err_msg
        many = tuple(f"topic_{number:03}_{'x' * 40}" for number in range(1_000))
        whole = await producer.ask(
            RegisterRequestP2M(client_id="p", broker_check_sum=-1, host_name="h", topic_list=many),
            RegisterResponseM2P,
            Method.PRODUCER_REGISTER_P2M,
        )
        assert whole.success, "many topics are no long text"
