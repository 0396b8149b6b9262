"""The cluster's flow-control rules under their older names: a view of the cluster's defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import Reply, base, rows
from pytubemq.admin.webapi.kinds import FlowRules, Int, QryPriority
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.methods.groups import flow_shown
from pytubemq.admin.webapi.params import OPS_ADD, OPS_UPD, Args, Param
from pytubemq.model.limits import MIB
from pytubemq.model.records import NO_RULES, TopicProps

if TYPE_CHECKING:
    from pytubemq.master.service import MasterService
    from pytubemq.model.records import ClusterRecord

_STATUS = Param("statusId", Int(0, 1))
_PRIORITY = Param("qryPriorityId", QryPriority())
_VALUES = (_STATUS, _PRIORITY, Param("flowCtrlInfo", FlowRules()))


async def _query(master: MasterService, args: Args) -> Reply:
    cluster = master.catalogue.cluster
    found = (
        master.registry.cluster.is_set
        and args.get("statusId", int(cluster.flow_ctrl_enable)) == int(cluster.flow_ctrl_enable)
        and args.get("qryPriorityId", cluster.qry_priority_id) == cluster.qry_priority_id
    )
    return rows([_shown(cluster)] if found else [])


async def _set(master: MasterService, args: Args) -> Reply:
    given: dict[str, Any] = {}
    if args.given("statusId"):
        given["flow_ctrl_enable"] = args["statusId"] == 1
    if args.given("qryPriorityId"):
        given["qry_priority_id"] = args["qryPriorityId"]
    if args.given("flowCtrlInfo"):
        given["flow_ctrl_info"] = args["flowCtrlInfo"]
    return await _change(master, args, given)


async def _remove(master: MasterService, args: Args) -> Reply:
    return await _change(master, args, {"flow_ctrl_enable": False, "flow_ctrl_info": NO_RULES})


async def _change(master: MasterService, args: Args, given: dict[str, Any]) -> Reply:
    return rows([_shown(await master.registry.cluster.update_defaults(given, TopicProps(), by=args.audit))])


def _shown(cluster: ClusterRecord) -> dict[str, Any]:
    return {
        "statusId": int(cluster.flow_ctrl_enable),
        "maxMsgSizeInMB": cluster.max_message_bytes // MIB,
        "qryPriorityId": cluster.qry_priority_id,
        **flow_shown(cluster.flow_ctrl_info),
        **base(cluster.stamp),
    }


METHODS: tuple[Method[MasterService], ...] = (
    Method(
        "admin_query_def_flow_control_rule",
        "The cluster's rules of flow control; none until something of the cluster is set.",
        False,
        (_STATUS, _PRIORITY),
        _query,
    ),
    Method(
        "admin_set_def_flow_control_rule",
        "Set the cluster's rules of flow control (`statusId` 1 = on).",
        True,
        (*OPS_ADD, *_VALUES),
        _set,
    ),
    Method(
        "admin_upd_def_flow_control_rule",
        "Change the cluster's rules of flow control.",
        True,
        (*OPS_UPD, *_VALUES),
        _set,
    ),
    Method(
        "admin_rmv_def_flow_control_rule",
        "Switch the cluster's flow control off and remove the rules.",
        True,
        OPS_UPD,
        _remove,
    ),
)
