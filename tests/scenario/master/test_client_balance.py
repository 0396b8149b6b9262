"""Client-balanced consumers at a real Master: what they are told of the partitions, when, and who may be which node."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.model.records import ConsumeRecord
from pytubemq.net.client.connection import RpcConnection
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import (
    ClientSubRepInfo,
    CloseRequestC2M,
    CloseResponseM2C,
    GetPartMetaRequestC2M,
    GetPartMetaResponseM2C,
    HeartRequestC2MV2,
    HeartResponseM2CV2,
    OpsTaskInfo,
    RegisterRequestC2MV2,
    RegisterResponseM2CV2,
)
from pytubemq.wire.rpc.methods import METHODS, Method
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.scenario.master.recordings import ONE, TWO, ask, body, field_set, prepare, recorded, two_brokers
from tests.scenario.master.town import WAIT_MS, FakeConsumer, Peer, Town, town
from tests.support.waiting import until, until_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


class Balancer(Peer):
    """A client-balanced consumer that calls method by method."""

    client_id = "g_127.0.0.1-1-1-1-Balance-1.0"
    group = "g"
    source_count = -2
    node_id = -2
    brokers_id = -2
    meta_id = -2

    async def register(self, **more: Any) -> RegisterResponseM2CV2:
        fields: dict[str, Any] = {
            "client_id": self.client_id,
            "group_name": self.group,
            "host_name": "127.0.0.1",
            "source_count": self.source_count,
            "node_id": self.node_id,
            "topic_list": ("demo",),
            "sub_rep_info": ClientSubRepInfo(broker_config_id=-2, topic_meta_info_id=-2),
        }
        answer = await self.ask(
            RegisterRequestC2MV2(**(fields | more)), RegisterResponseM2CV2, Method.CONSUMER_REGISTER_C2M_V2
        )
        self.brokers_id = answer.broker_config_id or -2
        return answer

    async def heartbeat(
        self,
        *held: str,
        report: bool = False,
        wait_ms: int | None = None,
        assigned_ms: int | None = None,
        ops_task: OpsTaskInfo | None = None,
    ) -> HeartResponseM2CV2:
        answer = await self.ask(
            HeartRequestC2MV2(
                client_id=self.client_id,
                group_name=self.group,
                sub_rep_info=ClientSubRepInfo(
                    broker_config_id=self.brokers_id,
                    topic_meta_info_id=self.meta_id,
                    lst_assigned_time=assigned_ms,
                    report_sub_info=report or bool(held),
                    part_sub_info=held,
                ),
                ops_task_info=ops_task,
                max_wait_ms=wait_ms,
            ),
            HeartResponseM2CV2,
            Method.CONSUMER_HEARTBEAT_C2M_V2,
        )
        self.meta_id = self.meta_id if answer.topic_meta_info_id is None else answer.topic_meta_info_id
        self.brokers_id = self.brokers_id if answer.broker_config_id is None else answer.broker_config_id
        return answer

    async def part_meta(self) -> GetPartMetaResponseM2C:
        answer = await self.ask(
            GetPartMetaRequestC2M(
                client_id=self.client_id,
                group_name=self.group,
                broker_config_id=self.brokers_id,
                topic_meta_info_id=self.meta_id,
            ),
            GetPartMetaResponseM2C,
            Method.GET_PART_META_C2M,
        )
        self.meta_id = self.meta_id if answer.topic_meta_info_id is None else answer.topic_meta_info_id
        return answer

    async def leave(self) -> None:
        request = CloseRequestC2M(client_id=self.client_id, group_name=self.group)
        assert (await self.ask(request, CloseResponseM2C, Method.CONSUMER_CLOSE_C2M)).success


@asynccontextmanager
async def served(*, partitions: int = 4, **settings: Any) -> AsyncIterator[Town]:
    """A town with the topic demo on broker 1."""
    async with town(**settings) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", partitions)
        yield t
        serving.cancel()


async def node(t: Town, number: int, *, of: int = 2, name: str = "", **more: Any) -> Balancer:
    return await t.peer(Balancer, client_id=name or f"node-{number}", node_id=number, source_count=of, **more)


JAVA = Capability(0)
NONSENSE = ClientSubRepInfo(
    broker_config_id=-2, topic_meta_info_id=-2, report_sub_info=True, part_sub_info=("nonsense",)
)


async def test_a_consumer_is_told_the_partitions_and_the_brokers() -> None:
    async with served() as t:
        consumer = await node(t, 0)
        answer = await consumer.register()
        assert (answer.err_code, answer.err_msg) == (200, "OK!")
        assert answer.broker_config_list == ("1:127.0.0.9: ",)
        assert answer.ops_task_info == OpsTaskInfo()
        assert answer.authorized_info is not None
        first = await consumer.part_meta()
        assert first.topic_meta_info_list == ("demo#1:1:4:1",)
        assert first.broker_config_list == ()
        again = await consumer.part_meta()
        assert (again.topic_meta_info_id, again.topic_meta_info_list) == (first.topic_meta_info_id, ())


async def test_what_a_consumer_says_it_holds_is_shown() -> None:
    async with served() as t:
        consumer = await node(t, 0)
        await consumer.register()
        assert (await t.master.group("g")).kind == "client-balance"
        plain = await consumer.heartbeat("demo#1:0,1:2")
        assert (plain.err_code, plain.topic_meta_info_id, plain.topic_meta_info_list) == (200, None, ())
        found = await t.master.group("g")
        assert found.member_list[0].partitions == ["1:demo:0", "1:demo:2"]
        assert found.state == "stable"
        assert {line.partition: line.holder for line in found.lag}["1:demo:2"] == "node-0"
        await consumer.heartbeat(report=True)
        assert (await t.master.group("g")).member_list[0].partitions == []


async def test_two_that_say_they_hold_the_same_are_both_believed() -> None:
    async with served() as t:
        for number in (0, 1):
            consumer = await node(t, number)
            await consumer.register()
            assert (await consumer.heartbeat("demo#1:0")).err_code == 200
        found = await t.master.group("g")
        assert [member.partitions for member in found.member_list] == [["1:demo:0"], ["1:demo:0"]]


async def test_one_of_ours_learns_of_new_partitions_at_once() -> None:
    async with served() as t:
        consumer = await node(t, 0)
        await consumer.register()
        first = await consumer.heartbeat(wait_ms=WAIT_MS)
        assert first.topic_meta_info_list == ("demo#1:1:4:1",)
        waiting = asyncio.create_task(consumer.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: len(t.master._groups.held) == 1)
        await t.broker(2)
        news = await waiting
        assert news.broker_config_list == ("1:127.0.0.9: ", "2:127.0.0.9:8124")


async def test_a_broker_that_goes_away_is_told_as_not_readable_and_keeps_its_place() -> None:
    async with town(lost_connection_grace_s=0.0) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 2)
        consumer = await node(t, 0)
        await consumer.register()
        there = await consumer.heartbeat(wait_ms=WAIT_MS)
        assert there.topic_meta_info_list == ("demo#1:1:2:1",)
        waiting = asyncio.create_task(consumer.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: len(t.master._groups.held) == 1)
        await broker.close()
        await asyncio.gather(serving, return_exceptions=True)
        away = await waiting
        assert away.topic_meta_info_list == ("demo#1:1:2:0",)
        assert (away.topic_meta_info_id or 0) > (there.topic_meta_info_id or 0)


async def test_a_topic_that_the_group_may_not_consume_is_told_as_not_readable_at_once() -> None:
    async with served() as t:
        consumer = await node(t, 0)
        await consumer.register()
        await consumer.heartbeat(wait_ms=WAIT_MS)
        waiting = asyncio.create_task(consumer.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: len(t.master._groups.held) == 1)
        forbidden = ConsumeRecord("g", "demo", consume_enable=False)
        await t.master._catalogue.apply([forbidden])
        assert (await waiting).topic_meta_info_list == ("demo#1:1:4:0",)
        await t.master._catalogue.apply([replace(forbidden, consume_enable=True)])
        assert (await consumer.part_meta()).topic_meta_info_list == ("demo#1:1:4:1",)


async def test_a_group_that_is_not_let_in_is_refused() -> None:
    async with served() as t:
        topic = t.master._catalogue.topics["demo"]
        await t.master._catalogue.apply([replace(topic, enable_auth_control=True)])
        assert (await (await node(t, 0)).register()).err_code == 450
        await t.master._catalogue.apply([ConsumeRecord("g", "demo")])
        assert (await (await node(t, 0)).register()).err_code == 200


async def test_a_restart_of_the_master_takes_no_partition_away(tmp_path: Path) -> None:
    async with served(data_dir=tmp_path):
        pass
    async with town(data_dir=tmp_path, restart_grace_s=300) as t:
        back = await node(t, 0)
        assert (await back.heartbeat()).err_code == 411
        await back.register(
            sub_rep_info=ClientSubRepInfo(
                broker_config_id=-2, topic_meta_info_id=-2, report_sub_info=True, part_sub_info=("demo#1:0",)
            )
        )
        assert (await t.master.group("g")).member_list[0].partitions == ["1:demo:0"]
        assert (await back.part_meta()).topic_meta_info_list == ("demo#1:1:4:1",), "its Broker is on its way back"


async def test_knowledge_that_is_three_minutes_old_is_renewed_with_a_heartbeat() -> None:
    async with served() as t:
        consumer = await node(t, 0, capabilities=JAVA)
        await consumer.register()
        now_ms = t.master._clock.wall_ms()
        assert (await consumer.heartbeat("demo#1:0", assigned_ms=now_ms - 60_000)).topic_meta_info_id is None
        assert (await consumer.heartbeat(assigned_ms=-1)).topic_meta_info_id is None
        old = await consumer.heartbeat(assigned_ms=now_ms - 600_000)
        assert old.topic_meta_info_list == ("demo#1:1:4:1",)
        same = await consumer.heartbeat(assigned_ms=now_ms - 600_000)
        assert (same.topic_meta_info_id, same.topic_meta_info_list) == (old.topic_meta_info_id, ())
        consumer.meta_id = -2
        assert (await consumer.heartbeat(report=True, assigned_ms=0)).topic_meta_info_id is None, "it holds nothing"


async def test_the_group_is_sent_to_the_newest_messages() -> None:
    async with served() as t:
        java, ours = await node(t, 0, capabilities=JAVA), await node(t, 1)
        for consumer in (java, ours):
            await consumer.register()
            await consumer.part_meta()
        assert t.master._groups.client_balance_groups() == ("g",)
        waiting = asyncio.create_task(ours.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: len(t.master._groups.held) == 1)
        assert t.master._groups.consume_from_max(["g", "no such group"]) == ("g",)
        told = (await waiting).ops_task_info
        assert told is not None
        assert told.csm_frm_max_offset_ctrl_id is not None
        assert (await java.heartbeat()).ops_task_info == told
        done = await java.heartbeat(ops_task=told)
        assert done.ops_task_info == OpsTaskInfo()


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"client_id": " "}, 400),
        ({"host_name": ""}, 400),
        ({"group_name": " "}, 400),
        ({"topic_list": ()}, 400),
        ({"topic_list": ("nosuch",)}, 431),
        ({"node_id": 2}, 400),
        ({"node_id": -1}, 400),
        ({"client_id": "a#b"}, 400),
        ({"group_name": "a@b"}, 400),
        ({"topic_condition": ("other#a",)}, 400),
        ({"topic_condition": ("demo",)}, 400),
        ({"topic_condition": ("demo#a",)}, 426),
        ({"source_count": 3}, 429),
        ({"source_count": -2, "node_id": -2}, 429),
        ({"node_id": 0}, 430),
        ({"sub_rep_info": NONSENSE}, 400),
        ({}, 200),
    ],
)
async def test_a_registration_gets_the_originals_code(more: dict[str, Any], code: int) -> None:
    async with served() as t:
        assert (await (await node(t, 0)).register()).err_code == 200
        answer = await (await node(t, 1)).register(**more)
        assert answer.err_code == code
        if code != 200:
            assert answer.err_msg
            assert field_set(answer) == {"err_code", "err_msg"}


async def test_a_group_whose_first_member_does_not_count_counts_nobody() -> None:
    async with served() as t:
        assert (await (await t.peer(Balancer, client_id="a")).register()).err_code == 200
        for number in (0, 0):
            assert (await (await node(t, number, name=f"b{number}")).register()).err_code == 200


async def test_a_known_consumer_registers_again() -> None:
    async with served() as t:
        consumer = await node(t, 0)
        assert (await consumer.register()).err_code == 200
        assert (await consumer.register()).err_code == 200
        assert (await consumer.register(node_id=1)).err_code == 200
        assert (await (await node(t, 0, name="other")).register()).err_code == 200


async def test_the_kinds_do_not_mix() -> None:
    async with served() as t:
        balancer = await node(t, 0)
        await balancer.register()
        pulls = await t.peer(FakeConsumer, client_id="pulls")
        assert (await pulls.register()).err_code == 424
        told = await (await t.peer(FakeConsumer, client_id="node-0")).heartbeat()
        assert told.err_code == 424
        assert "client-balance" in told.err_msg
        elsewhere = await t.peer(FakeConsumer, client_id="pulls", group="h")
        assert (await elsewhere.register()).success
        joins = await t.peer(Balancer, client_id="joins", group="h")
        assert (await joins.register()).err_code == 424
        as_other = await t.peer(Balancer, client_id="pulls", group="h")
        for answer in (await as_other.heartbeat(), await as_other.part_meta()):
            assert answer.err_code == 424
            assert "server-balance" in answer.err_msg


async def test_an_unknown_consumer_must_register() -> None:
    async with served() as t:
        consumer = await node(t, 0)
        assert (await consumer.heartbeat()).err_code == 411
        assert (await consumer.part_meta()).err_code == 411
        await consumer.register()
        await consumer.leave()
        assert (await consumer.heartbeat()).err_code == 411
        assert t.master._groups.groups == {}


async def test_a_silent_consumer_is_gone_after_the_time_out() -> None:
    async with served(client_timeout_s=0.05) as t:
        silent = await node(t, 0, capabilities=JAVA)
        await silent.register()
        await until(lambda: not t.master._groups.groups)
        assert (await silent.heartbeat()).err_code == 411


async def test_the_successor_of_a_killed_node_gets_in() -> None:
    async with served(lost_connection_grace_s=0.02) as t:
        dies = await node(t, 0, name="dies", capabilities=JAVA)
        await dies.register()
        stays = await node(t, 1, name="stays")
        await stays.register()
        successor = await node(t, 0, name="successor", capabilities=JAVA)
        assert (await successor.register()).err_code == 430, "while the first is there"
        await dies.close()
        await until_answer(successor.register, lambda answer: answer.err_code == 200, every_s=0.01)
        assert set(t.master._groups.groups["g"].members) == {"stays", "successor"}


async def test_recorded_requests_get_answers_of_the_same_form(tmp_path: Path) -> None:
    prepare(tmp_path, ONE, TWO)
    async with town(data_dir=tmp_path) as t:
        await two_brokers(t)
        for run in t.master._brokers.runs.values():
            assert run.online
        java = await RpcConnection.connect(t.master.address, capabilities=JAVA)
        ids: dict[int, int] = {}
        for line, recorded_line in recorded("balance-master.jsonl"):
            spec = METHODS[line["method"]]
            request, expected = decode(spec.request, body(line)), decode(spec.response, body(recorded_line))
            answer = await ask(java, line, encode(_translated(request, ids, t.master._clock.wall_ms())))
            for name in ("broker_config_id", "topic_meta_info_id"):
                if getattr(expected, name, None) is not None:
                    ids[getattr(expected, name)] = getattr(answer, name)
            assert field_set(answer) == field_set(expected), line["name"]
            assert (answer.err_code, answer.err_msg) == (expected.err_code, expected.err_msg)
            assert getattr(answer, "broker_config_list", ()) == getattr(expected, "broker_config_list", ())
            told = {info.partition("#")[0] for info in getattr(answer, "topic_meta_info_list", ())}
            assert told == {info.partition("#")[0] for info in getattr(expected, "topic_meta_info_list", ())}
        await java.close()


def _translated(request: Any, ids: dict[int, int], now_ms: int) -> Any:
    """The request with our ids where it has the recorded Master's, and as if its partitions were told just now."""
    if isinstance(request, GetPartMetaRequestC2M):
        return replace(
            request,
            broker_config_id=ids.get(request.broker_config_id, request.broker_config_id),
            topic_meta_info_id=ids.get(request.topic_meta_info_id, request.topic_meta_info_id),
        )
    said = request.sub_rep_info
    return replace(
        request,
        sub_rep_info=replace(
            said,
            lst_assigned_time=None if said.lst_assigned_time is None else now_ms,
            broker_config_id=ids.get(said.broker_config_id, said.broker_config_id),
            topic_meta_info_id=ids.get(said.topic_meta_info_id, said.topic_meta_info_id),
        ),
    )
