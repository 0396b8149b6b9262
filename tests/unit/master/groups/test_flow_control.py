"""What consumers are told of flow control, field by field."""

from __future__ import annotations

from dataclasses import replace

from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.master.groups.flow_control import FlowIds, FlowResponses
from pytubemq.model.records import ClusterRecord, GroupRecord, Stamp
from pytubemq.net.clock import SystemClock
from pytubemq.wire.protocol.messages.master import OpsTaskInfo

RULES = '[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300}]}]'
GROUP_RULES = '[{"type":1,"rule":[{"zeroCnt":5,"freqInMs":500}]}]'


def flow(*, cluster: bool, group: bool) -> FlowResponses:
    catalogue = Catalogue(SystemClock())
    catalogue.cluster = ClusterRecord(
        flow_ctrl_enable=cluster, flow_ctrl_info=RULES, qry_priority_id=202, stamp=Stamp(serial_id=1000)
    )
    catalogue.groups["g"] = GroupRecord(
        "g", flow_ctrl_enable=group, flow_ctrl_info=GROUP_RULES, qry_priority_id=303, stamp=Stamp(serial_id=2000)
    )
    return FlowResponses(catalogue)


def test_who_does_not_ask_is_told_nothing() -> None:
    assert flow(cluster=True, group=True).consumer_fields("g", None, None) == {}


def test_rules_that_are_off_are_minus_two_and_one_blank() -> None:
    told = flow(cluster=False, group=False).consumer_fields("g", 1000, 2000)
    assert told == {
        "def_flow_check_id": -2,
        "def_flow_control_info": " ",
        "group_flow_check_id": -2,
        "group_flow_control_info": " ",
        "ssd_store_id": -2,
        "qry_priority_id": -2,
    }


def test_rules_are_told_where_the_id_differs() -> None:
    answers = flow(cluster=True, group=True)
    told = answers.consumer_fields("g", -2, 2000)
    assert (told["def_flow_check_id"], told["def_flow_control_info"]) == (1000, RULES)
    assert (told["group_flow_check_id"], told["group_flow_control_info"], told["qry_priority_id"]) == (2000, " ", 303)
    told = answers.consumer_fields("g", 1000, None)
    assert (told["def_flow_control_info"], told["group_flow_control_info"]) == (" ", GROUP_RULES)


def test_the_priority_goes_only_with_the_groups_own_rules() -> None:
    told = flow(cluster=True, group=False).consumer_fields("g", -2, -2)
    assert (told["def_flow_check_id"], told["qry_priority_id"], told["group_flow_check_id"]) == (1000, -2, -2)
    assert flow(cluster=True, group=True).consumer_fields("unknown", -2, -2)["group_flow_check_id"] == -2


def test_a_client_that_shares_by_itself_is_told_only_what_is_on() -> None:
    assert flow(cluster=False, group=False).ops_task("g", OpsTaskInfo()) == {}
    assert flow(cluster=False, group=False).ops_task("g", None) == {}
    assert flow(cluster=True, group=False).ops_task("g", OpsTaskInfo(def_flow_check_id=-2)) == {
        "def_flow_check_id": 1000,
        "def_flow_control_info": RULES,
    }
    assert flow(cluster=False, group=True).ops_task("g", OpsTaskInfo(group_flow_check_id=2000)) == {
        "group_flow_check_id": 2000,
        "qry_priority_id": 303,
    }


def test_a_client_that_shares_by_itself_is_told_to_drop_what_is_off() -> None:
    told = flow(cluster=False, group=False).ops_task("g", OpsTaskInfo(def_flow_check_id=1000, group_flow_check_id=9))
    assert (told["def_flow_check_id"], told["def_flow_control_info"]) == (-2, " ")
    assert (told["group_flow_check_id"], told["group_flow_control_info"], told["qry_priority_id"]) == (-2, " ", -2)


def test_the_ids_change_with_what_is_to_be_told() -> None:
    answers = flow(cluster=True, group=False)
    assert answers.ids("g") == FlowIds(1000, -2)
    catalogue = answers._catalogue
    catalogue.groups["g"] = replace(catalogue.groups["g"], flow_ctrl_enable=True)
    assert answers.ids("g") == FlowIds(1000, 2000)
