"""The same calls of /webapi.htm at a Java Master and at ours: the same answers, but for what is known to differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytubemq.admin.webapi.authorization import Access
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import RegisterRequestC2MV2, RegisterResponseM2CV2
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import FakeBroker, FakeConsumer, FakeProducer, Peer
from tests.scenario.webapi.house import house

from .fetch import fetch
from .processes import TOKEN, JavaMaster
from .webapi import until_answers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.anyio]

USER = {"createUser": "me1", "modifyUser": "me1", "confModAuthToken": TOKEN}
RULES = '[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300}]}]'
VOLATILE = {"errMsg", "errInfo", "serialId", "createDate", "modifyDate", "topicMetaId", "reason", "rebalanceCheckTime"}
"""Texts are our own; times, ids, ports and rounds of the Java Master's balancing differ from run to run."""

D = {"topicName": "demo"}
G = {"groupName": "g1"}
DG = {**D, **G}

STEPS: tuple[tuple[str, dict[str, str]], ...] = (
    ("admin_add_broker_configure", {"brokerIp": "127.0.0.1", "brokerId": "1", "manageStatus": "online"}),
    ("admin_add_new_topic_record", {"topicName": "demo,demo2", "brokerId": "1"}),
    ("admin_add_group_csmctrl_info", {**D, "groupName": "g1,g2", "filterEnable": "true", "filterConds": "b,a"}),
    ("admin_add_group_csmctrl_info", DG),
    ("admin_add_group_csmctrl_info", {**G, "topicName": "nope"}),
    ("admin_add_group_csmctrl_info", {**G}),
    ("admin_query_group_csmctrl_info", {}),
    ("admin_query_group_csmctrl_info", {"filterConds": "a", **G}),
    ("admin_query_booked_csmctrl_groups", {}),
    ("admin_update_group_csmctrl_info", {**D, "groupName": "g1,g9", "consumeEnable": "false"}),
    ("admin_update_group_csmctrl_info", {**DG, "consumeEnable": "false"}),
    ("admin_query_black_consumer_group_info", {}),
    ("admin_add_black_consumergroup_info", {**G, "topicName": "demo2"}),
    ("admin_query_black_consumer_group_info", {}),
    ("admin_delete_black_consumergroup_info", {**G, "topicName": "demo2"}),
    ("admin_query_allowed_consumer_group_info", G),
    ("admin_add_authorized_consumergroup_info", {"topicName": "demo2", "groupName": "g4"}),
    ("admin_delete_allowed_consumer_group_info", {"topicName": "demo2", "groupName": "g4"}),
    ("admin_delete_allowed_consumer_group_info", {"topicName": "demo2", "groupName": "g8"}),
    ("admin_query_group_filtercond_info", {}),
    ("admin_add_group_filtercond_info", {**D, "groupName": "g5", "condStatus": "2", "filterConds": "x"}),
    ("admin_mod_group_filtercond_info", {**D, "groupName": "g6", "condStatus": "2", "filterConds": "x"}),
    ("admin_query_group_filtercond_info", {"condStatus": "2"}),
    ("admin_del_group_filtercond_info", {**D, "groupName": "g5"}),
    ("admin_delete_group_csmctrl_info", {"groupName": "g5"}),
    ("admin_delete_group_csmctrl_info", {**D, "groupName": "g77"}),
    ("admin_add_group_resctrl_info", {"groupName": "g10", "flowCtrlEnable": "true", "flowCtrlInfo": RULES}),
    ("admin_add_group_resctrl_info", {"groupName": "g10"}),
    ("admin_query_group_resctrl_info", {"groupName": "g10"}),
    ("admin_update_group_resctrl_info", {"groupName": "g10,g11", "alwdBrokerClientRate": "4"}),
    ("admin_update_group_resctrl_info", {"groupName": "g10", "alwdBrokerClientRate": "4"}),
    ("admin_delete_group_resctrl_info", {"groupName": "g1"}),
    ("admin_delete_group_resctrl_info", {"groupName": "g88"}),
    ("admin_add_consume_group_setting", {"groupName": "g10", "allowedBClientRate": "3"}),
    ("admin_query_consume_group_setting", {"groupName": "g10"}),
    ("admin_upd_consume_group_setting", {"groupName": "g99", "allowedBClientRate": "3"}),
    ("admin_del_consume_group_setting", {"groupName": "g10,g99"}),
    ("admin_query_group_flow_control_rule", {"groupName": "g10"}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "statusId": "1"}),
    ("admin_upd_group_flow_control_rule", {"groupName": "g98", "statusId": "1"}),
    ("admin_rmv_group_flow_control_rule", {"groupName": "g10,g99"}),
    ("admin_query_group_flow_control_rule", {"groupName": "g10"}),
    ("admin_query_sub_info", {}),
    ("admin_query_consume_group_detail", {}),
    ("admin_query_consume_group_detail", {"groupName": "nobody"}),
    ("admin_query_group_info_by_topic", {}),
    ("admin_query_client_balance_group_set", {}),
    ("admin_rebalance_group_allocate", {**G, "consumerId": "c1"}),
    ("admin_set_client_balance_group_consume_from_max", G),
    ("admin_nonsense", {}),
    ("", {}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "statusId": "7"}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "qryPriorityId": "1"}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "flowCtrlInfo": '[{"type":1,"rule":[{}]}]'}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "flowCtrlInfo": '[{"type":0,"rule":[]}]'}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "flowCtrlInfo": '[{"type":1,"rule":[]}]'}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "flowCtrlInfo": '[{"type":3,"rule":[]}]'}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "flowCtrlInfo": '[{"type":1}]'}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "qryPriorityId": "111"}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "qryPriorityId": "203"}),
    ("admin_set_group_flow_control_rule", {"groupName": "g11", "qryPriorityId": "203"}),
    ("admin_add_consume_group_setting", {"groupName": "g10", "allowedBClientRate": "5"}),
    ("admin_add_consume_group_setting", {"groupName": "g10", "allowedBClientRate": "5"}),
    ("admin_upd_consume_group_setting", {"groupName": "g10", "allowedBClientRate": "5"}),
    ("admin_add_group_filtercond_info", {**DG, "condStatus": "2", "filterConds": "x"}),
    ("admin_add_group_filtercond_info", {**DG, "condStatus": "2", "filterConds": "x"}),
    ("admin_set_topic_authorize_control", {**D, "isEnable": "true"}),
    ("admin_set_topic_authorize_control", {**D, "isEnable": "true"}),
    ("admin_set_topic_authorize_control", {**D, "isEnable": "false"}),
    ("admin_set_topic_authorize_control", {**D, "isEnable": "false"}),
    ("admin_delete_topic_authorize_control", D),
    ("admin_mod_group_filtercond_info", {**DG, "condStatus": "2", "filterConds": "x"}),
    ("admin_del_consume_group_setting", {"groupName": "g10"}),
    ("admin_del_consume_group_setting", {"groupName": "g10"}),
    ("admin_rmv_group_flow_control_rule", {"groupName": "g11"}),
    ("admin_query_group_resctrl_info", {"groupName": "g11"}),
    ("admin_rmv_group_flow_control_rule", {"groupName": "g11"}),
    ("admin_set_cluster_default_setting", {"qryPriorityId": "203"}),
    ("admin_add_group_resctrl_info", {"groupName": "p6", "qryPriorityId": "202", "flowCtrlInfo": RULES}),
    ("admin_add_group_resctrl_info", {"groupName": "p1"}),
    ("admin_add_consume_group_setting", {"groupName": "p2", "allowedBClientRate": "3"}),
    ("admin_set_group_flow_control_rule", {"groupName": "p3", "statusId": "1"}),
    ("admin_update_group_resctrl_info", {"groupName": "p4", "alwdBrokerClientRate": "4"}),
    ("admin_upd_group_flow_control_rule", {"groupName": "p3", "qryPriorityId": "202"}),
    ("admin_set_group_flow_control_rule", {"groupName": "p5", "statusId": "1"}),
    ("admin_query_group_resctrl_info", {"groupName": "p1,p2,p3,p4,p5,p6"}),
    ("admin_rmv_group_flow_control_rule", {"groupName": "p1,p2,p3,p6"}),
    ("admin_del_consume_group_setting", {"groupName": "p2"}),
    ("admin_query_group_resctrl_info", {"groupName": "p1,p2,p3,p4,p5,p6"}),
    ("admin_set_def_flow_control_rule", {"qryPriorityId": "202", "statusId": "1", "flowCtrlInfo": RULES}),
    ("admin_rmv_def_flow_control_rule", {}),
    ("admin_query_def_flow_control_rule", {}),
    ("admin_del_group_filtercond_info", DG),
    ("admin_del_group_filtercond_info", DG),
    ("admin_update_topic_control_info", {**D, "enableAuthControl": "false"}),
    ("admin_add_broker_configure", {"brokerIp": "127.0.0.5", "brokerId": "5", "brokerWebPort": "8123"}),
    ("admin_add_broker_configure", {"brokerIp": "127.0.0.5", "brokerId": "5", "brokerWebPort": "8124"}),
    ("admin_add_broker_configure", {"brokerIp": "127.0.0.5", "brokerId": "-5"}),
    ("admin_add_broker_configure", {"brokerIp": "127.0.0.6", "brokerId": "0"}),
    ("admin_add_topic_control_info", {"topicName": "lone"}),
    ("admin_add_topic_control_info", {"topicName": "lone2", "topicNameId": "-1"}),
    ("admin_add_topic_control_info", {"topicName": "lone3", "topicNameId": "7"}),
    ("admin_query_topic_control_info", {"topicName": "lone,lone3"}),
    ("admin_query_group_info_by_topic", {"topicName": "lone,nope"}),
    ("admin_query_deployed_broker_ids", {}),
    ("admin_query_deployed_broker_ids", {"topicName": "lone,nope,demo"}),
)

LIVE: tuple[tuple[str, dict[str, str]], ...] = (
    ("admin_query_sub_info", {}),
    ("admin_query_sub_info", {"topicName": "demo2"}),
    ("admin_query_group_info_by_topic", {"topicName": "demo"}),
    ("admin_query_client_balance_group_set", {}),
    ("admin_query_consume_group_detail", {"groupName": "gn"}),
    ("admin_query_consume_group_detail", {"consumeGroup": "gb"}),
    ("admin_set_client_balance_group_consume_from_max", {"groupName": "gn,gv"}),
)

TEXTS: tuple[dict[str, str], ...] = (
    {"type": "consumer", "group": "gn"},
    {"type": "consumer", "group": "gb"},
    {"type": "consumer", "group": "gv"},
    {"type": "sub_info", "group": "gn"},
    {"type": "sub_info", "group": "gb"},
    {"type": "sub_info", "group": "gv"},
    {"type": "producer", "id": "nobody"},
    {"type": "producer", "id": "p_1"},
    {"type": "producer", "topic": "demo"},
    {"type": "producer", "topic": "nope"},
    {"type": "topic_pub", "topic": "demo"},
    {"type": "topic_pub", "topic": "nope"},
    {"type": "broker"},
    {"type": "newBroker", "ids": "1"},
    {"type": "broker", "ids": "9"},
    {"type": "unbalance_group"},
)


async def call(client: httpx.AsyncClient, method: str, params: dict[str, str]) -> dict[str, Any]:
    answer = await client.get("/webapi.htm", params={"method": method, **USER, **params})
    assert answer.status_code == 200
    found = answer.json()
    assert isinstance(found, dict)
    return found


def comparable(found: Any, *, alike: Any) -> Any:
    """An answer without what may differ: texts, times, keys that ours has more, the order of rows."""
    if isinstance(found, dict):
        keys = alike if isinstance(alike, dict) else found
        return {
            key: comparable(value, alike=keys[key])
            for key, value in found.items()
            if key not in VOLATILE and key in keys
        }
    if isinstance(found, list):
        model = alike[0] if isinstance(alike, list) and alike else None
        return sorted((comparable(one, alike=model) for one in found), key=repr)
    return found


async def peer(kind: type[Peer], master: Address, /, **attributes: Any) -> Any:
    made = kind(await RpcConnection.connect(master, capabilities=Capability(0)))
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


async def crowd(master: Address) -> list[Peer]:
    """A Broker, and consumers of each kind that have nothing yet."""
    broker = await peer(FakeBroker, master, address=Address("127.0.0.1", 8123))
    await broker.register()
    normal = await peer(FakeConsumer, master, group="gn", client_id="gn_1")
    await normal.register("demo", "demo2", topic_condition=("demo#bb,aa",))
    bound = await peer(FakeConsumer, master, group="gb", client_id="gb_1")
    await bound.register("demo", require_bound=True, session_key="k", total_count=2, required_partition="1:demo:0=28")
    balanced = RegisterRequestC2MV2(
        client_id="gv_1", group_name="gv", host_name="h", source_count=1, node_id=0, topic_list=("demo",)
    )
    await bound.ask(balanced, RegisterResponseM2CV2, Method.CONSUMER_REGISTER_C2M_V2)
    producer = await peer(FakeProducer, master, client_id="p_1")
    await producer.register()
    await producer.heartbeat("demo", "demo2")
    return [broker, normal, bound, producer]


async def test_both_masters_answer_alike(tmp_path: Path) -> None:
    java = JavaMaster(fetch(), tmp_path / "java")
    pages = tmp_path / "java" / "resources" / "templates"
    (pages / "screen" / "master.vm").write_text("$sb")
    (pages / "layout" / "master.vm").write_text("$screen_placeholder")
    await java.start()
    try:
        async with house(access=Access(TOKEN)) as here, httpx.AsyncClient(base_url=java.web, timeout=30) as theirs:
            await until_answers(java)
            differences = await compare(theirs, here.client, STEPS)
            peers = [*await crowd(Address("127.0.0.1", java.port)), *await crowd(here.town.master.address)]
            differences += await compare(theirs, here.client, LIVE)
            for query in TEXTS:
                found = [(await client.get("/master.htm", params=query)).text for client in (theirs, here.client)]
                if found[0] != found[1]:
                    differences.append(f"{query}: {found}")
            for one in peers:
                await one.close()
    finally:
        await java.kill()
    assert not differences, "\n\n".join(differences)


async def compare(
    theirs: httpx.AsyncClient, ours: httpx.AsyncClient, steps: tuple[tuple[str, dict[str, str]], ...]
) -> list[str]:
    """What differs, step by step."""
    found = []
    for method, params in steps:
        said, answered = await call(theirs, method, params), await call(ours, method, params)
        if comparable(said, alike=said) != comparable(answered, alike=said):
            found.append(f"{method} {params}\n  Java {said}\n  ours {answered}")
    return found
