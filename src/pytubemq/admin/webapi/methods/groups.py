"""Settings of consumer groups: priority, flow-control rules, Brokers per consumer; and the older views of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import GOOD, Reply, base, many_rows, old_base, outcomes
from pytubemq.admin.webapi.kinds import GROUP, Bool, FlowRules, Int, ListOf, QryPriority
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.params import OPS_ADD, OPS_UPD, Args, Param, filters, has_stamp, json_set
from pytubemq.core.flow import parse_rules
from pytubemq.master.registry.groups import GroupChange, GroupRegistry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from pytubemq.master.registry.outcome import Outcome
    from pytubemq.master.service import MasterService
    from pytubemq.model.records import GroupRecord

    _Operation = Callable[[GroupRegistry, Sequence[GroupChange]], Awaitable[list[Outcome]]]

KEYS = ("groupName",)

_GROUPS = Param("groupName", ListOf(GROUP), old=("consumeGroup",))
_GROUPS_NEEDED = Param("groupName", ListOf(GROUP), required=True)
_GROUP = Param("groupName", GROUP, required=True)
_PRIORITY = Param("qryPriorityId", QryPriority())
_RULES = Param("flowCtrlInfo", FlowRules())
_STATUS = Param("statusId", Int(0, 1))
_OLD_RATE = Param("allowedBClientRate", Int(0))
_CHECK = Param("resCheckEnable", Bool())
_VALUES = (_CHECK, Param("alwdBrokerClientRate", Int(0)), _PRIORITY, Param("flowCtrlEnable", Bool()), _RULES)
_FIND = filters(_GROUPS, _CHECK, _PRIORITY, Param("flowCtrlEnable", Bool()))


def flow_shown(rules: str) -> dict[str, Any]:
    """Return rules as an array, with the number of types."""
    return {"ruleCnt": parse_rules(rules).count, "flowCtrlInfo": json.loads(rules)}


# --- queries ----------------------------------------------------------------------------------------------------


async def _query(master: MasterService, args: Args) -> Reply:
    return await many_rows(
        {
            "groupName": record.group,
            "resCheckEnable": record.res_check_enable,
            "alwdBrokerClientRate": record.alwd_broker_client_rate,
            "qryPriorityId": record.qry_priority_id,
            "flowCtrlEnable": record.flow_ctrl_enable,
            "flowCtrlRuleCount": parse_rules(record.flow_ctrl_info).count,
            "flowCtrlInfo": json.loads(record.flow_ctrl_info),
            **base(record.stamp),
        }
        for record in _found(master, args)
    )


async def _query_names(master: MasterService, args: Args) -> Reply:
    found = [record.group for record in _found(master, args)]
    return {**GOOD, "data": found, "count": len(found)}


async def _query_settings(master: MasterService, args: Args) -> Reply:
    rate = args.get("allowedBClientRate")
    return await many_rows(
        {
            "groupName": record.group,
            "enableBind": 1,
            "allowedBClientRate": record.alwd_broker_client_rate,
            "attributes": "",
            "lastBindUsedDate": "-",
            **old_base(record.stamp),
        }
        for record in _found(master, args)
        if rate is None or record.alwd_broker_client_rate == rate
    )


async def _query_rules(master: MasterService, args: Args) -> Reply:
    status = args.get("statusId")
    return await many_rows(
        {
            "groupName": record.group,
            "statusId": int(record.flow_ctrl_enable),
            "qryPriorityId": record.qry_priority_id,
            **flow_shown(record.flow_ctrl_info),
            **base(record.stamp),
        }
        for record in _found(master, args)
        if status is None or int(record.flow_ctrl_enable) == status
    )


def _found(master: MasterService, args: Args) -> Iterable[GroupRecord]:
    wanted = {
        "res_check_enable": args.get("resCheckEnable"),
        "qry_priority_id": args.get("qryPriorityId"),
        "flow_ctrl_enable": args.get("flowCtrlEnable"),
    }
    for record in master.registry.groups.find(args.get("groupName", ())):
        same = all(value is None or getattr(record, name) == value for name, value in wanted.items())
        if same and has_stamp(record.stamp, args):
            yield record


# --- changes ----------------------------------------------------------------------------------------------------


def _values(args: Args) -> dict[str, Any]:
    """Return a group's settings, by the names of the newer methods."""
    return {
        "res_check_enable": args.get("resCheckEnable"),
        "alwd_broker_client_rate": args.get("alwdBrokerClientRate"),
        "qry_priority_id": args.get("qryPriorityId"),
        "flow_ctrl_enable": args.get("flowCtrlEnable"),
        "flow_ctrl_info": args.get("flowCtrlInfo"),
    }


def _setting(args: Args) -> dict[str, Any]:
    """Return a group's settings by the names of the older setting."""
    return {
        "res_check_enable": args.get("resCheckEnable"),
        "alwd_broker_client_rate": args.get("allowedBClientRate"),
    }


def _rules(args: Args) -> dict[str, Any]:
    """Return a group's settings by the names of the older rules."""
    status = args.get("statusId")
    return {
        "qry_priority_id": args.get("qryPriorityId"),
        "flow_ctrl_enable": None if status is None else status == 1,
        "flow_ctrl_info": args.get("flowCtrlInfo"),
    }


def _nothing(_: Args) -> dict[str, Any]:
    return {}


def _no_check(_: Args) -> dict[str, Any]:
    return {"res_check_enable": False, "alwd_broker_client_rate": 0}


def _each(operation: _Operation, values: Callable[[Args], dict[str, Any]]) -> Any:
    """Return a method that applies an operation of the registry to every named group."""

    async def run(master: MasterService, args: Args) -> Reply:
        changes = [GroupChange(group=group, by=args.audit, **values(args)) for group in args["groupName"]]
        return outcomes(await operation(master.registry.groups, changes), KEYS)

    return run


def _set(operation: _Operation, name: str, values: Callable[[Args], dict[str, Any]]) -> Any:
    """Return a method that applies an operation to every object of a set; the request fills in missing values."""

    async def run(master: MasterService, args: Args) -> Reply:
        said = {key: value for key, value in values(args).items() if value is not None}
        changes = [
            GroupChange(
                group=one["groupName"],
                by=one.audit,
                **{**said, **{key: value for key, value in values(one).items() if value is not None}},
            )
            for one in args.items(name)
        ]
        return outcomes(await operation(master.registry.groups, changes), KEYS)

    return run


_RES_SET = json_set("groupResCtrlJsonSet", _GROUP, *_VALUES)
_SETTING = (_CHECK, _OLD_RATE)
_FLOW = (_STATUS, _PRIORITY, _RULES)

METHODS: tuple[Method[MasterService], ...] = (
    Method("admin_query_group_resctrl_info", "The settings of groups.", False, _FIND, _query),
    Method("admin_query_booked_resctrl_groups", "The groups that have such records.", False, _FIND, _query_names),
    Method(
        "admin_add_group_resctrl_info",
        "Add records; flow control is off by default.",
        True,
        (*OPS_ADD, _GROUPS_NEEDED, *_VALUES),
        _each(GroupRegistry.add, _values),
    ),
    Method(
        "admin_batch_add_group_resctrl_info",
        "Add records.",
        True,
        (*OPS_ADD, _RES_SET),
        _set(GroupRegistry.add, "groupResCtrlJsonSet", _values),
        aliases=("admin_bath_add_group_resctrl_info",),
    ),
    Method(
        "admin_update_group_resctrl_info",
        "Change records.",
        True,
        (*OPS_UPD, _GROUPS_NEEDED, *_VALUES),
        _each(GroupRegistry.update, _values),
    ),
    Method(
        "admin_batch_update_group_resctrl_info",
        "Change records.",
        True,
        (*OPS_UPD, _RES_SET),
        _set(GroupRegistry.update, "groupResCtrlJsonSet", _values),
        aliases=("admin_bath_update_group_resctrl_info",),
    ),
    Method(
        "admin_delete_group_resctrl_info",
        "Delete records; not while the group has records of consuming.",
        True,
        (*OPS_UPD, _GROUPS_NEEDED),
        _each(GroupRegistry.delete, _nothing),
    ),
    Method(
        "admin_query_consume_group_setting",
        "How many Brokers one consumer of a group may have.",
        False,
        filters(_GROUPS, _OLD_RATE),
        _query_settings,
    ),
    Method(
        "admin_add_consume_group_setting",
        "Set how many Brokers one consumer may have.",
        True,
        (*OPS_ADD, _GROUPS_NEEDED, *_SETTING),
        _each(GroupRegistry.put, _setting),
    ),
    Method(
        "admin_bath_add_consume_group_setting",
        "Set how many Brokers one consumer of each group may have; values that an object leaves out are taken "
        "from the request.",
        True,
        (*OPS_ADD, *_SETTING, json_set("groupNameJsonSet", _GROUP, *_SETTING)),
        _set(GroupRegistry.put, "groupNameJsonSet", _setting),
        aliases=("admin_batch_add_consume_group_setting",),
    ),
    Method(
        "admin_upd_consume_group_setting",
        "Change how many Brokers one consumer may have.",
        True,
        (*OPS_UPD, _GROUPS_NEEDED, *_SETTING),
        _each(GroupRegistry.update, _setting),
    ),
    Method(
        "admin_del_consume_group_setting",
        "Switch the check off and set the number to 0; the records stay.",
        True,
        (*OPS_UPD, _GROUPS_NEEDED),
        _each(GroupRegistry.update, _no_check),
    ),
    Method(
        "admin_query_group_flow_control_rule",
        "The flow-control rules of groups.",
        False,
        filters(_GROUPS, _PRIORITY, _STATUS),
        _query_rules,
    ),
    Method(
        "admin_set_group_flow_control_rule",
        "Set the rules of flow control of groups (`statusId` 1 = on).",
        True,
        (*OPS_ADD, _GROUPS_NEEDED, *_FLOW),
        _each(GroupRegistry.put, _rules),
    ),
    Method(
        "admin_upd_group_flow_control_rule",
        "Change the rules of flow control of groups.",
        True,
        (*OPS_UPD, _GROUPS_NEEDED, *_FLOW),
        _each(GroupRegistry.update, _rules),
    ),
    Method(
        "admin_rmv_group_flow_control_rule",
        "Switch a group's flow control off if it is on, remove its rules, and set the priority back to 301.",
        True,
        (*OPS_UPD, _GROUPS_NEEDED),
        _each(GroupRegistry.remove_rules, _nothing),
    ),
)
