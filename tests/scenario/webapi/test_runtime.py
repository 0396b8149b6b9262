"""What runs now, as it is asked over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytubemq.admin.webapi.methods import web_statistics
from pytubemq.wire.protocol.messages.master import RegisterRequestC2MV2, RegisterResponseM2CV2
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import WAIT_MS, FakeConsumer, FakeProducer
from tests.scenario.webapi.house import House, house

pytestmark = pytest.mark.anyio


async def crowd(here: House) -> None:
    """A producer, a group of each kind, and a Broker with two topics."""
    broker = await here.town.broker()
    await here.topics("demo", "other")
    serving = asyncio.create_task(broker.serve())
    consumer = await here.town.peer(FakeConsumer)
    await consumer.register("demo", "other", topic_condition=("demo#b,a",))
    event = (await consumer.heartbeat(wait_ms=WAIT_MS)).event
    assert event is not None
    await consumer.heartbeat(done=event, holds=event.subscribe_info)
    bound = await here.town.peer(FakeConsumer, group="gb", client_id="gb_1")
    await bound.register(require_bound=True, session_key="k", total_count=2, required_partition="1:demo:0=28")
    await bound.ask(
        RegisterRequestC2MV2(
            client_id="gv_1", group_name="gv", host_name="h", source_count=1, node_id=0, topic_list=("other",)
        ),
        RegisterResponseM2CV2,
        Method.CONSUMER_REGISTER_C2M_V2,
    )
    producer = await here.town.peer(FakeProducer)
    await producer.register()
    await producer.heartbeat("demo", "other")
    serving.cancel()


async def test_groups_are_shown_with_members_and_partitions() -> None:
    async with house() as here:
        await crowd(here)
        assert await here.rows("admin_query_sub_info") == [
            {"consumeGroup": "g", "topicSet": ["demo", "other"], "consumerNum": 1},
            {"consumeGroup": "gb", "topicSet": ["demo"], "consumerNum": 1},
            {"consumeGroup": "gv", "topicSet": ["other"], "consumerNum": 1},
        ]
        assert [one["consumeGroup"] for one in await here.rows("admin_query_sub_info", topicName="demo")] == ["g", "gb"]
        assert await here.rows("admin_query_group_info_by_topic", topicName="other") == [
            {"topicName": "other", "groupSet": ["g", "gv"], "groupCnt": 2}
        ]
        assert await here.rows("admin_query_group_info_by_topic", topicName="nosuch,other") == [
            {"topicName": "nosuch", "groupSet": [], "groupCnt": 0},
            {"topicName": "other", "groupSet": ["g", "gv"], "groupCnt": 2},
        ]
        assert await here.rows("admin_query_client_balance_group_set") == ["gv"]

        found = await here.ask("admin_query_consume_group_detail", consumeGroup="g")
        assert (found["result"], found["count"], found["isBandConsume"]) == (True, 1, "unbound")
        assert found["filterConds"] == {"demo": ["a", "b"]}
        assert found["rebInfo"] == {
            "isRebalanced": True,
            "checkPasted": True,
            "defBClientRate": 1000,
            "confBClientRate": -2,
            "curBClientRate": 1,
        }
        member = found["data"][0]
        assert (member["consumerId"], member["parCount"]) == (FakeConsumer.client_id, 4)
        assert member["parInfo"][0] == {"partId": 0, "brokerAddr": "1:127.0.0.9:8123", "topicName": "demo"}

        found = await here.ask("admin_query_consume_group_detail", groupName="gb")
        assert (found["isBandConsume"], found["isNotAllocate"], found["sessionKey"]) == ("bound", True, "k")
        assert (found["reqSourceCount"], found["curSourceCount"]) == (2, 1)
        assert found["data"][0]["initReSetPartInfo"] == [{"partitionKey": "1:demo:0", "Offset": 28}]
        assert found["rebInfo"] == {"isRebalanced": False}

        found = await here.ask("admin_query_consume_group_detail", groupName="gv")
        assert (found["isBandConsume"], found["metaDetails"]) == ("client-rebalance", ["other#1:1:2:1"])
        assert (found["data"][0]["sourceCount"], found["data"][0]["nodeId"]) == (1, 0)

        found = await here.ask("admin_query_consume_group_detail", groupName="nobody")
        assert (found["result"], found["count"], found["data"]) == (True, 0, [])


async def test_members_give_up_their_partitions_when_told_to() -> None:
    async with house() as here:
        await crowd(here)
        member = {"groupName": "g", "consumerId": FakeConsumer.client_id, "reJoinWait": "2"}
        assert (await here.change("admin_rebalance_group_allocate", **member))["result"]
        found = await here.ask("admin_query_consume_group_detail", groupName="g")
        (out,) = found["re-rebalance"].values()
        assert (out["clientId"], out["waitDuration"]) == (FakeConsumer.client_id, 2)
        assert out["createTime"] >= here.town.master.started_ms
        again = await here.change("admin_rebalance_group_allocate", **member)
        assert "giving up its partitions already" in again["errMsg"]
        for wrong, text in (
            ({**member, "groupName": "nobody"}, "group nobody has no members"),
            ({**member, "consumerId": "zz"}, "'zz' is not in group g"),
            ({**member, "groupName": "gv", "consumerId": "gv_1"}, "balances its partitions itself"),
            ({**member, "reJoinWait": "-1"}, "reJoinWait is -1: it must be at least 0"),
        ):
            refused = await here.change("admin_rebalance_group_allocate", **wrong)
            assert (refused["result"], refused["errCode"]) == (False, 400)
            assert text in refused["errMsg"]


async def test_client_balanced_groups_go_on_from_the_newest() -> None:
    async with house() as here:
        await crowd(here)
        name = "admin_set_client_balance_group_consume_from_max"
        assert (await here.change(name, groupName="g,gv"))["result"]
        assert here.town.master.group_room.groups["gv"].from_max_id is not None
        refused = await here.change(name, groupName="g,gb")
        assert (refused["result"], refused["errCode"]) == (False, 400)


async def test_the_master_and_its_methods_are_shown() -> None:
    async with house() as here:
        assert await here.rows("admin_query_server_version") == [{"version": here.town.master.version}]
        found = await here.ask("admin_query_master_group_info")
        address = here.town.master.address
        assert (found["data"][0]["hostName"], found["data"][0]["port"]) == (address.host, str(address.port))
        assert found["data"][0]["statusInfo"]["nodeStatus"] == "Master"
        methods = {one["method"]: one["needAuth"] for one in await here.rows("admin_get_methods")}
        assert methods["admin_rebalance_group_allocate"] is True
        assert methods["admin_query_sub_info"] is False
        refused = await here.change("admin_transfer_current_master")
        assert "admin_transfer_current_master is not offered" in refused["errMsg"]
        assert "admin_transfer_current_master" not in methods


async def test_statistics_count_from_snapshot_to_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_statistics, "SNAPSHOT_S", 0.0)
    async with house() as here:
        await crowd(here)

        async def metrics(**params: str) -> dict[str, Any]:
            (row,) = await here.rows("admin_get_metrics_info", **params)
            assert (row["nodeRole"], row["count"]) == ("Master", 2)
            return row["metrics"]  # type: ignore[no-any-return]

        first = await metrics(needRefresh="true")
        service, web = first["serviceStatus"], first["webAPI"]
        rooms = here.town.master
        assert service["csm_online_group_cnt"] == len(rooms.group_room.groups)
        assert service["producer_online_cnt"] == len(rooms.producer_room.by_id)
        assert service["consumer_con_event_cnt"] == rooms.group_room.counters.connect_events > 0
        again = await metrics()
        assert again["serviceStatus"]["consumer_con_event_cnt"] == 0
        assert list(again["webAPI"]["methods"]) == ["method_admin_get_metrics_info"]
        assert web["isClosed"] is False
        assert (await here.change("admin_disable_stats", statsType="serviceStatus"))["result"]
        assert (await metrics())["webAPI"]["isClosed"] is False
        assert (await here.change("admin_disable_all_stats"))["result"]
        closed = (await metrics())["webAPI"]
        assert closed["isClosed"] is True
        assert (await metrics())["webAPI"] == closed
        assert (await here.change("admin_enable_stats", statsType="all"))["result"]
        assert (await metrics())["webAPI"]["isClosed"] is False
        refused = await here.change("admin_enable_stats", statsType="msgStore")
        assert (refused["result"], "statsType" in refused["errMsg"]) == (False, True)


async def test_a_question_about_a_group_where_there_is_none() -> None:
    async with house() as here:
        assert await here.page("consumer", group="g") == "No such group.\n\nCurrent all groups(0):\n"
        assert await here.page("sub_info", group="g") == "No such group.\n\nCurrent all group(0):\n"


HEADING = "\n########################## Subscribe Relationship ############################\n\n"


async def test_text_queries_are_answered_to_the_character_as_the_original_does() -> None:
    async with house() as here:
        await crowd(here)
        one, producer = FakeConsumer.client_id, FakeProducer.client_id
        assert await here.page("consumer", group="g") == f"1. {one}@g:demo,other@overTLS=false\n"
        assert await here.page("consumer", group="zz") == "No such group.\n\nCurrent all groups(3):\ng\ngb\ngv\n"
        assert await here.page("sub_info", group="zz") == "No such group.\n\nCurrent all group(3):\ng\ngb\ngv\n"
        lines = "".join(
            f"{one}#1:127.0.0.9:8123#{topic}:{number}\n" for topic in ("demo", "other") for number in (0, 1)
        )
        assert await here.page("sub_info", group="g") == (
            f"{HEADING}*************** 1. {one}#isOverTLS=false ***************(4)\n\n{lines}\n\n"
        )
        assert await here.page("sub_info", group="gv") == (
            f"{HEADING}*************** 1. gv_1#isOverTLS=false ***************(0)\n\n\n\n"
        )
        assert await here.page("producer", id=producer) == f"{producer}#demo:other:@overTLS=false"
        assert await here.page("producer", id="x") == "No such producer!"
        assert await here.page("producer", topic="demo") == f"1. {producer}\n"
        assert await here.page("producer", topic="nope") == ""
        assert await here.page("topic_pub", topic="demo") == f"{producer}\n"
        assert await here.page("topic_pub", topic="nope") == "No producer has publish this topic."
        head = f"\n{'#' * 34} 1. 1:127.0.0.9:8123 {'#' * 34}\n"
        line = "1:127.0.0.9:8123#demo:2:true:true:1"
        page = await here.page("broker")
        assert page.startswith(head)
        assert f"\n{line}\n" in page
        assert f"\n{line}#0\n" in await here.page("newBroker", ids="1")
        assert await here.page("broker", ids="7") == ""
        assert await here.page("unbalance_group") == "gb:demo\n"


async def test_a_member_that_never_had_partitions_has_no_count_of_them() -> None:
    async with house() as here:
        await crowd(here)
        found = await here.page("sub_info", group="gb")
        assert found == f"{HEADING}*************** 1. gb_1#isOverTLS=false ***************\n\n"


async def test_where_a_member_came_from_is_its_host_alone() -> None:
    async with house() as here:
        await crowd(here)
        for group in ("g", "gb", "gv"):
            found = await here.ask("admin_query_consume_group_detail", groupName=group)
            assert [member["receivedFrom"] for member in found["data"]] == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "parameter type is missing; it must be one of consumer,"),
        ("type=nonsense", "parameter type is 'nonsense'"),
        ("type=consumer", "parameter group is missing"),
        ("type=consumer&group=%3Cscript%3E", "parameter group is '<script>'"),
        ("type=producer", "parameter id or topic is missing"),
        ("type=broker&ids=x", "parameter ids is 'x'"),
        ("type=consumer&type=consumer", "given twice"),
        ("type=consumer&group=%FF", "not UTF-8"),
    ],
)
async def test_bad_text_queries_are_refused_as_text(query: str, text: str) -> None:
    async with house() as here:
        answer = await here.client.get(f"/master.htm?{query}")
        assert answer.status_code == 400
        assert text in answer.text
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_topic_that_lies_nowhere_has_brokers_only_where_it_is_asked_for() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo")
        assert await here.codes("admin_add_topic_control_info", topicName="lone") == [200]
        found = await here.rows("admin_query_deployed_broker_ids")
        assert {one["topicName"]: one["brokerInfo"] for one in found} == {"demo": [1]}
        found = await here.rows("admin_query_deployed_broker_ids", topicName="lone,nosuch,demo")
        assert {one["topicName"]: one["brokerInfo"] for one in found} == {"demo": [1], "lone": [], "nosuch": []}


async def test_a_text_query_may_come_as_a_form() -> None:
    async with house() as here:
        await crowd(here)
        asked = await here.text("consumer", group="g")
        answer = await here.client.post("/master.htm", data={"type": "consumer", "group": "g"})
        assert answer.text.splitlines() == asked
        answer = await here.client.post("/master.htm?type=consumer", files={"group": b"g"})
        assert (answer.status_code, "send a form" in answer.text) == (400, True)


async def test_an_id_below_zero_is_refused() -> None:
    async with house() as here:
        found = await here.change("admin_add_broker_configure", brokerIp="127.0.0.5", brokerId="-5")
        assert (found["result"], found["errCode"]) == (False, 400)
        assert "brokerId is -5: it must be at least 0" in found["errMsg"]
        assert await here.rows("admin_query_broker_configure") == []
