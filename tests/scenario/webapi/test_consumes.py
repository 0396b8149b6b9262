"""What groups may do with topics and what holds for them, changed over HTTP, under the new names and the old ones."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from pytubemq.model.records import GroupRecord
from tests.scenario.webapi.house import house

pytestmark = pytest.mark.anyio

RULES = '[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300}]}]'


def objects(*found: dict[str, object]) -> str:
    return quote(json.dumps(found))


async def test_records_are_added_changed_found_and_deleted() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo", "other")
        add = {"topicName": "demo,other", "groupName": "g1"}
        assert await here.codes("admin_add_group_csmctrl_info", **add, filterEnable="true", filterConds="b,a") == [
            200, 200,
        ]  # fmt: skip
        assert await here.codes("admin_add_group_csmctrl_info", topicName="demo", groupName="g1,g2") == [402, 200]
        found = await here.rows("admin_query_group_csmctrl_info", topicName="demo")
        assert [(one["groupName"], one["consumeEnable"], one["filterConds"]) for one in found] == [
            ("g1", True, ",a,b,"),
            ("g2", True, ""),
        ]
        assert found[0]["createUser"] == "me"
        assert found[0]["serialId"] > 0
        assert len(found[0]["createDate"]) == 14
        # The records of the group came along; those of the topics were there.
        assert [one["groupName"] for one in await here.rows("admin_query_group_resctrl_info")] == ["g1", "g2"]

        update = {"groupName": "g1,g9", "topicName": "demo", "consumeEnable": "false", "dsCsmRsn": "too_fast"}
        assert await here.codes("admin_update_group_csmctrl_info", **update) == [200, 401]
        assert await here.codes("admin_update_group_csmctrl_info", **update) == [403, 401]
        assert [one["disableCsmRsn"] for one in await here.rows("admin_query_group_csmctrl_info", csmEn="false")] == [
            "too_fast"
        ]
        assert await here.rows("admin_query_booked_csmctrl_groups", topic="demo") == ["g1", "g2"]
        assert len(await here.rows("admin_query_group_csmctrl_info", filterConds="a")) == 2
        assert await here.rows("admin_query_group_csmctrl_info", filterConds="a,c") == []
        assert await here.rows("admin_query_group_csmctrl_info", createUser="you") == []

        assert await here.codes("admin_delete_group_resctrl_info", groupName="g1") == [405]
        gone = await here.change("admin_delete_group_csmctrl_info", groupName="g1,g9")
        assert [(one["groupName"], one["topicName"], one["errCode"]) for one in gone["data"]] == [
            ("g1", "", 200),
            ("g9", "", 200),
        ]
        assert await here.codes("admin_delete_group_resctrl_info", groupName="g1") == [200]
        assert [one["groupName"] for one in await here.rows("admin_query_group_csmctrl_info")] == ["g2"]


async def test_a_topic_that_no_broker_has_takes_no_record() -> None:
    async with house() as here:
        found = await here.change("admin_add_group_csmctrl_info", topicName="nope", groupName="g1")
        assert (found["result"], found["errCode"]) == (False, 400)
        assert "nope" in found["errMsg"]


async def test_many_records_in_one_call_and_never_too_many() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo")
        some = objects(
            {"groupName": "g1", "topicName": "demo", "consumeEnable": False, "createUser": "other"},
            {"group": "g2", "topic": "demo"},
            {"group": "g2", "topic": "demo"},
        )
        for name in ("admin_batch_add_group_csmctrl_info", "admin_bath_add_group_csmctrl_info"):
            expected = [200, 200, 402] if "batch" in name else [402, 402, 402]
            assert await here.codes(name, groupCsmJsonSet=some) == expected
        users = {one["groupName"]: one["createUser"] for one in await here.rows("admin_query_group_csmctrl_info")}
        assert users == {"g1": "other", "g2": "me"}
        assert await here.codes("admin_batch_update_group_csmctrl_info", groupCsmJsonSet=some) == [403, 403, 403]
        gone = objects({"group": "g1", "topic": "demo"}, {"group": "g7", "topic": "demo"})
        assert await here.codes("admin_batch_delete_group_csmctrl_info", groupCsmJsonSet=gone) == [200, 200]
        many = {
            "topicName": ",".join(f"t{number}" for number in range(200)),
            "groupName": ",".join(f"g{number}" for number in range(100)),
        }
        found = await here.change("admin_add_group_csmctrl_info", **many)
        assert "make 20,000 pairs, at most 10,000" in found["errMsg"]


async def test_the_older_lists_are_the_same_records() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo", "other")
        deny = {"topicName": "demo", "groupName": "g1"}
        # A second time is as good as the first.
        for _ in range(2):
            assert await here.codes("admin_add_black_consumergroup_info", **deny) == [200]
        assert [one["groupName"] for one in await here.rows("admin_query_black_consumer_group_info")] == ["g1"]
        assert here.town.master.catalogue.disabled_topics("g1") == {"demo"}
        # Without a group the list of the topic is emptied.
        assert await here.codes("admin_delete_black_consumergroup_info", topicName="demo") == [200]
        assert await here.rows("admin_query_black_consumer_group_info") == []
        assert here.town.master.catalogue.disabled_topics("g1") == frozenset()
        assert [one["groupName"] for one in await here.rows("admin_query_allowed_consumer_group_info")] == ["g1"]

        names = objects({"topicName": "demo", "groupName": "g2"}, {"topicName": "other", "groupName": "g2"})
        assert await here.codes("admin_bath_add_authorized_consumergroup_info", groupNameJsonSet=names) == [200, 200]
        assert await here.codes("admin_batch_del_authorized_consumergroup_info", groupNameJsonSet=names) == [200, 200]
        assert len(await here.rows("admin_query_black_consumer_group_info", groupName="g2")) == 2
        assert await here.codes("admin_batch_delete_black_consumergroup_info", groupNameJsonSet=names) == [200, 200]
        assert await here.codes("admin_delete_allowed_consumer_group_info", topicName="demo", groupName="g8") == [200]
        assert await here.rows("admin_query_group_csmctrl_info", groupName="g8") == []


async def test_the_older_filters_are_the_same_records() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo")
        pair = {"topicName": "demo", "groupName": "g1"}
        assert await here.codes("admin_mod_group_filtercond_info", **pair, condStatus="2") == [401]
        assert await here.codes("admin_add_group_filtercond_info", **pair, condStatus="2", filterConds="y,x") == [200]
        assert await here.codes("admin_add_group_filtercond_info", **pair, condStatus="2", filterConds="x,y") == [403]
        found = await here.rows("admin_query_group_filtercond_info", condStatus="2")
        assert [(one["groupName"], one["condStatus"], one["filterConds"]) for one in found] == [("g1", 2, ",x,y,")]
        some = objects({**pair, "condStatus": 0}, {"topicName": "demo", "groupName": "g2", "filterConds": "z"})
        codes = await here.codes("admin_bath_add_group_filtercond_info", condStatus="2", filterCondJsonSet=some)
        assert codes == [200, 200]
        found = await here.rows("admin_query_group_filtercond_info")
        assert [(one["groupName"], one["condStatus"], one["filterConds"]) for one in found] == [
            ("g1", 0, ",x,y,"),
            ("g2", 2, ",z,"),
        ]
        assert await here.codes("admin_del_group_filtercond_info", topicName="demo") == [200, 200]
        found = await here.rows("admin_query_group_filtercond_info")
        assert [(one["condStatus"], one["filterConds"]) for one in found] == [(0, ""), (0, "")]


async def test_what_holds_for_groups() -> None:
    async with house() as here:
        groups = {"groupName": "g1,g2"}
        add = {**groups, "flowCtrlEnable": "true", "flowCtrlInfo": RULES, "qryPriorityId": "202"}
        assert await here.codes("admin_add_group_resctrl_info", **add) == [200, 200]
        assert await here.codes("admin_add_group_resctrl_info", **add) == [402, 402]
        found = await here.rows("admin_query_group_resctrl_info", groupName="g1")
        assert found[0] | {"serialId": 0, "createDate": "", "modifyDate": ""} == {
            "groupName": "g1",
            "resCheckEnable": False,
            "alwdBrokerClientRate": 0,
            "qryPriorityId": 202,
            "flowCtrlEnable": True,
            "flowCtrlRuleCount": 1,
            "flowCtrlInfo": json.loads(RULES),
            "dataVersionId": -2,
            "serialId": 0,
            "createUser": "me",
            "createDate": "",
            "modifyUser": "me",
            "modifyDate": "",
        }
        assert await here.codes("admin_update_group_resctrl_info", groupName="g1,g9", abcr="4") == [200, 401]
        assert await here.codes("admin_update_group_resctrl_info", groupName="g1", abcr="4") == [403]
        some = objects({"groupName": "g3", "flowCtrlInfo": RULES, "flowCtrlEnable": True})
        assert await here.codes("admin_batch_add_group_resctrl_info", groupResCtrlJsonSet=some) == [200]
        assert await here.rows("admin_query_booked_resctrl_groups", flowCtrlEnable="true") == ["g1", "g2", "g3"]
        bad = RULES.replace("300", "-1")
        found_bad = await here.change("admin_update_group_resctrl_info", groupName="g1", flowCtrlInfo=bad)
        assert "freqInMs" in found_bad["errMsg"]


async def test_the_older_settings_and_rules_are_the_same_records() -> None:
    async with house() as here:
        assert await here.codes("admin_upd_consume_group_setting", groupName="g1", allowedBClientRate="3") == [401]
        assert await here.codes("admin_add_consume_group_setting", groupName="g1", allowedBClientRate="3") == [200]
        some = objects({"groupName": "g2"}, {"groupName": "g3", "allowedBClientRate": 7})
        assert await here.codes(
            "admin_bath_add_consume_group_setting", allowedBClientRate="5", groupNameJsonSet=some
        ) == [200, 200]
        found = await here.rows("admin_query_consume_group_setting")
        assert [one["allowedBClientRate"] for one in found] == [3, 5, 7]
        assert found[0].keys() >= {"enableBind", "attributes", "lastBindUsedDate"}
        assert await here.codes("admin_del_consume_group_setting", groupName="g1,g9") == [200, 401]

        assert await here.codes("admin_upd_group_flow_control_rule", groupName="g9", statusId="1") == [401]
        rule = {"groupName": "g1,g4", "statusId": "1", "flowCtrlInfo": RULES}
        assert await here.codes("admin_set_group_flow_control_rule", **rule) == [200, 200]
        assert here.town.master.catalogue.groups["g4"].flow_ctrl_info == RULES
        found = await here.rows("admin_query_group_flow_control_rule", statusId="1")
        assert [(one["groupName"], one["ruleCnt"]) for one in found] == [("g1", 1), ("g4", 1)]
        assert await here.codes("admin_rmv_group_flow_control_rule", groupName="g4,g9") == [200, 200]
        record = here.town.master.catalogue.groups["g4"]
        assert (record.flow_ctrl_enable, record.flow_ctrl_info) == (False, "[]")


async def test_records_survive_a_restart(tmp_path: object) -> None:
    async with house(data_dir=tmp_path) as here:
        await here.codes("admin_add_group_resctrl_info", groupName="g1", flowCtrlEnable="true", flowCtrlInfo=RULES)
    async with house(data_dir=tmp_path) as here:
        record = here.town.master.catalogue.groups["g1"]
        assert record == GroupRecord(
            "g1", flow_ctrl_enable=True, flow_ctrl_info=RULES, stamp=record.stamp
        )  # fmt: skip
        assert record.stamp.create_user == "me"
