"""Methods about the cluster as a whole: the defaults of Brokers and topics, and the Brokers of each topic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import Reply, base, props, rows
from pytubemq.admin.webapi.kinds import TOPIC, Bool, FlowRules, Int, ListOf, QryPriority
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.params import OPS_ADD, OPS_UPD, PROPS, Args, Param
from pytubemq.admin.webapi.topic_views import topic_totals
from pytubemq.core.flow import parse_rules
from pytubemq.model.limits import MAX_MESSAGE_BYTES, MIB
from pytubemq.model.records import BUILT_IN_PROPS

if TYPE_CHECKING:
    from pytubemq.master.service import MasterService
    from pytubemq.model.records import ClusterRecord

PORT = Int(1, 65_535)
MESSAGE_MIB = Int(1, MAX_MESSAGE_BYTES // MIB)

_FIELDS = {
    "brokerPort": "broker_port",
    "brokerTLSPort": "broker_tls_port",
    "brokerWebPort": "broker_web_port",
    "qryPriorityId": "qry_priority_id",
    "flowCtrlEnable": "flow_ctrl_enable",
    "flowCtrlInfo": "flow_ctrl_info",
}
_VALUES = (
    Param("brokerPort", PORT),
    Param("brokerTLSPort", PORT),
    Param("brokerWebPort", PORT),
    Param("maxMsgSizeInMB", MESSAGE_MIB),
    Param("qryPriorityId", QryPriority()),
    Param("flowCtrlEnable", Bool()),
    Param("flowCtrlInfo", FlowRules()),
    *PROPS,
)


async def _query(master: MasterService, _: Args) -> Reply:
    return rows([_shown(master.catalogue.cluster)] if master.registry.cluster.is_set else [])


async def _set(master: MasterService, args: Args) -> Reply:
    return rows([_shown(await master.registry.cluster.set_defaults(_given(args), args.props(), by=args.audit))])


async def _update(master: MasterService, args: Args) -> Reply:
    return rows([_shown(await master.registry.cluster.update_defaults(_given(args), args.props(), by=args.audit))])


async def _topic_view(master: MasterService, args: Args) -> Reply:
    return rows(
        [
            {
                "topicName": topic,
                "totalCfgBrokerCnt": totals.places,
                "totalCfgNumStore": totals.stores,
                "totalRunNumStore": totals.run_stores,
                "totalCfgNumPart": totals.partitions,
                "totalRunNumPartCount": totals.run_partitions,
                "isSrvAcceptPublish": totals.publish.places > 0,
                "isSrvAcceptSubscribe": totals.subscribe.places > 0,
                "enableAuthControl": master.catalogue.topics[topic].enable_auth_control,
            }
            async for topic, totals in topic_totals(master, args)
        ]
    )


def _given(args: Args) -> dict[str, Any]:
    given = {field: args[name] for name, field in _FIELDS.items() if args.given(name)}
    if args.given("maxMsgSizeInMB"):
        given["max_message_bytes"] = args["maxMsgSizeInMB"] * MIB
    return given


def _shown(cluster: ClusterRecord) -> dict[str, Any]:
    return {
        "brokerPort": cluster.broker_port,
        "brokerTLSPort": cluster.broker_tls_port,
        "brokerWebPort": cluster.broker_web_port,
        "maxMsgSizeInMB": cluster.max_message_bytes // MIB,
        "qryPriorityId": cluster.qry_priority_id,
        "flowCtrlEnable": cluster.flow_ctrl_enable,
        "flowCtrlRuleCount": parse_rules(cluster.flow_ctrl_info).count,
        "flowCtrlInfo": json.loads(cluster.flow_ctrl_info),
        **props(cluster.props.over(BUILT_IN_PROPS)),
        **base(cluster.stamp),
    }


METHODS: tuple[Method[MasterService], ...] = (
    Method(
        "admin_query_cluster_default_setting", "The cluster's defaults; none until they are set.", False, (), _query
    ),
    Method(
        "admin_set_cluster_default_setting",
        "Set the cluster's defaults: a property of topics that is not given gets the built-in value, the rest stays.",
        True,
        (*OPS_ADD, *_VALUES),
        _set,
    ),
    Method(
        "admin_update_cluster_default_setting",
        "Change the cluster's defaults; values not given stay.",
        True,
        (*OPS_UPD, *_VALUES),
        _update,
    ),
    Method(
        "admin_query_cluster_topic_view",
        "Each topic with its stores and partitions, as configured and as running.",
        False,
        (Param("brokerId", ListOf(Int(0))), Param("topicName", ListOf(TOPIC))),
        _topic_view,
    ),
)
