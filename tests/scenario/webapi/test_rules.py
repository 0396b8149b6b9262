"""Rules that an administrator sets, as consumers meet them: who is let in, what is taken away, how fast to read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import Code
from pytubemq.wire.protocol.messages.master import (
    HeartRequestC2M,
    HeartResponseM2C,
    OpsTaskInfo,
    RegisterRequestC2MV2,
    RegisterResponseM2CV2,
)
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import WAIT_MS, FakeConsumer
from tests.scenario.webapi.house import house

if TYPE_CHECKING:
    from pytubemq.wire.protocol.messages.master import EventProto

pytestmark = pytest.mark.anyio

RULES = '[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300}]}]'
OTHER_RULES = '[{"type":1,"rule":[{"zeroCnt":9,"freqInMs":900}]}]'
CONNECT, DISCONNECT = 10, 20


class Reader(FakeConsumer):
    """A consumer that asks for flow control, as all do, and keeps the ids it is told."""

    rules = (-2, -2)

    async def beat(self, *, wait_ms: int | None = None, done: EventProto | None = None) -> HeartResponseM2C:
        answer = await self.ask(
            HeartRequestC2M(
                client_id=self.client_id,
                group_name=self.group,
                report_subscribe_info=done is not None,
                subscribe_info=() if done is None or done.op_type == DISCONNECT else done.subscribe_info,
                event=done,
                def_flow_check_id=self.rules[0],
                group_flow_check_id=self.rules[1],
                max_wait_ms=wait_ms,
            ),
            HeartResponseM2C,
            Method.CONSUMER_HEARTBEAT_C2M,
        )
        self.rules = (answer.def_flow_check_id or -2, answer.group_flow_check_id or -2)
        return answer


async def test_a_controlled_topic_lets_in_whom_the_records_do() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo", auth=True)
        consumer = await here.town.peer(FakeConsumer)
        assert (await consumer.register()).err_code == Code.CONSUME_GROUP_FORBIDDEN
        await here.codes("admin_add_group_csmctrl_info", topicName="demo", groupName="g", consumeEnable="false")
        assert (await consumer.register()).err_code == Code.CONSUME_GROUP_FORBIDDEN
        await here.codes("admin_add_authorized_consumergroup_info", topicName="demo", groupName="g")
        assert (await consumer.register()).err_code == Code.SUCCESS
        pair = {"topicName": "demo", "groupName": "h"}
        await here.codes("admin_add_group_csmctrl_info", **pair, filterEnable="true", filterConds="a,b")
        other = await here.town.peer(FakeConsumer, group="h", client_id="h_127.0.0.1-1-1-1-Pull-1.0")
        assert (await other.register()).err_code == Code.CONSUME_CONTENT_FORBIDDEN
        refused = await other.register(topic_condition=("demo#a,c",))
        assert (refused.err_code, "items c of demo" in refused.err_msg) == (Code.CONSUME_CONTENT_FORBIDDEN, True)
        assert (await other.register(topic_condition=("demo#a,b",))).err_code == Code.SUCCESS
        balancer = await consumer.ask(
            RegisterRequestC2MV2(
                client_id="k1", group_name="k", host_name="h", source_count=1, node_id=0, topic_list=("demo",)
            ),
            RegisterResponseM2CV2,
            Method.CONSUMER_REGISTER_C2M_V2,
        )
        assert balancer.err_code == Code.CONSUME_GROUP_FORBIDDEN


async def test_a_denied_group_loses_its_partitions_while_it_runs_and_gets_them_back() -> None:
    async with house() as here:
        broker = await here.town.broker()
        serving = asyncio.create_task(broker.serve())
        await here.topics("demo")
        consumer = await here.town.peer(Reader)
        await consumer.register()
        given = (await consumer.beat(wait_ms=WAIT_MS)).event
        assert given is not None
        assert (given.op_type, len(given.subscribe_info)) == (CONNECT, 2)
        held = asyncio.create_task(consumer.beat(done=given, wait_ms=WAIT_MS))
        await here.codes("admin_add_black_consumergroup_info", topicName="demo", groupName="g")
        taken = (await held).event
        assert taken is not None
        assert (taken.op_type, len(taken.subscribe_info)) == (DISCONNECT, 2)
        held = asyncio.create_task(consumer.beat(done=taken, wait_ms=WAIT_MS))
        await here.codes("admin_delete_black_consumergroup_info", topicName="demo", groupName="g")
        back = (await held).event
        assert back is not None
        assert (back.op_type, len(back.subscribe_info)) == (CONNECT, 2)
        serving.cancel()


async def test_new_rules_answer_a_held_heartbeat_at_once_and_once() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo")
        consumer = await here.town.peer(Reader)
        first = await consumer.register(def_flow_check_id=-2, group_flow_check_id=-2)
        assert (first.def_flow_check_id, first.group_flow_check_id, first.def_flow_control_info) == (-2, -2, " ")
        held = asyncio.create_task(consumer.beat(wait_ms=WAIT_MS))
        await here.codes("admin_set_group_flow_control_rule", groupName="g", statusId="1", flowCtrlInfo=RULES)
        told = await held
        serial_id = here.town.master.catalogue.groups["g"].stamp.serial_id
        assert (told.group_flow_check_id, told.group_flow_control_info, told.qry_priority_id) == (serial_id, RULES, 301)
        # Told once, it waits again; one that does not learn the ids is not answered over and over either.
        consumer.rules = (-2, -2)
        held = asyncio.create_task(consumer.beat(wait_ms=WAIT_MS))
        await here.codes("admin_set_group_flow_control_rule", groupName="other", statusId="1", flowCtrlInfo=RULES)
        assert not held.done()
        await here.codes("admin_rmv_group_flow_control_rule", groupName="g")
        off = await held
        assert (off.group_flow_check_id, off.group_flow_control_info, off.qry_priority_id) == (-2, " ", -2)


async def test_who_does_not_wait_is_told_with_its_next_heartbeat() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo")
        consumer = await here.town.peer(Reader)
        await consumer.register()
        await here.codes("admin_set_group_flow_control_rule", groupName="g", statusId="1", flowCtrlInfo=RULES)
        assert (await consumer.beat()).group_flow_control_info == RULES
        assert (await consumer.beat()).group_flow_control_info == " "
        await here.codes("admin_upd_group_flow_control_rule", groupName="g", flowCtrlInfo=OTHER_RULES)
        assert (await consumer.beat()).group_flow_control_info == OTHER_RULES


async def test_a_client_balanced_group_is_told_in_its_task() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo")
        await here.codes("admin_set_group_flow_control_rule", groupName="g", statusId="1", flowCtrlInfo=RULES)
        consumer = await here.town.peer(FakeConsumer)
        request = RegisterRequestC2MV2(
            client_id="g1",
            group_name="g",
            host_name="h",
            source_count=1,
            node_id=0,
            topic_list=("demo",),
            ops_task_info=OpsTaskInfo(def_flow_check_id=-2, group_flow_check_id=-2),
        )
        answer = await consumer.ask(request, RegisterResponseM2CV2, Method.CONSUMER_REGISTER_C2M_V2)
        assert answer.ops_task_info is not None
        assert answer.ops_task_info.group_flow_control_info == RULES
        assert answer.ops_task_info.def_flow_check_id is None


async def test_the_clusters_rules_reach_every_group_and_go_again() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo")
        assert await here.rows("admin_query_def_flow_control_rule") == []
        consumer = await here.town.peer(Reader)
        await consumer.register()
        held = asyncio.create_task(consumer.beat(wait_ms=WAIT_MS))
        rule = {"statusId": "1", "flowCtrlInfo": RULES, "qryPriorityId": "202"}
        made = await here.change("admin_set_def_flow_control_rule", **rule)
        assert (made["data"][0]["statusId"], made["data"][0]["ruleCnt"]) == (1, 1)
        told = await held
        assert (told.def_flow_check_id, told.def_flow_control_info) == (made["data"][0]["serialId"], RULES)
        assert (told.group_flow_check_id, told.qry_priority_id) == (-2, -2)
        assert (await consumer.beat()).def_flow_control_info == " "
        same = await here.change("admin_set_def_flow_control_rule", **rule)
        assert (same["result"], same["errCode"]) == (False, 400)
        assert await here.rows("admin_query_def_flow_control_rule", statusId="0") == []
        gone = await here.change("admin_rmv_def_flow_control_rule")
        assert (gone["data"][0]["statusId"], gone["data"][0]["flowCtrlInfo"]) == (0, [])
        off = await consumer.beat()
        assert (off.def_flow_check_id, off.def_flow_control_info) == (-2, " ")
