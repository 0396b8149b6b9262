"""One consumer group as the original shows it, in an envelope of its own.

The keys are the original's, spelling and all: `isBandConsume`, `checkPasted`, `re-rebalance`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import GOOD, Reply
from pytubemq.core.balance.consistency import GroupKind
from pytubemq.master.groups.readiness import members_for_rate
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import MAX_BROKERS_PER_CLIENT

if TYPE_CHECKING:
    from pytubemq.core.balance.view import Member
    from pytubemq.master.groups.group import Group
    from pytubemq.master.service import MasterService
    from pytubemq.model.ids import Partition

KINDS = {
    GroupKind.SERVER_BALANCE: "unbound",
    GroupKind.BOUND: "bound",
    GroupKind.CLIENT_BALANCE: "client-rebalance",
}
_GIVING_UP, _OUT = 1, 2


def describe(master: MasterService, name: str) -> Reply:
    """Return a group with its members; one that has none is shown empty."""
    group = master.group_room.groups.get(name)
    if group is None:
        return {
            **GOOD,
            "count": 0,
            "topicSet": [],
            "consumeGroup": name,
            "re-rebalance": {},
            "isBandConsume": KINDS[GroupKind.SERVER_BALANCE],
            "rebInfo": {"isRebalanced": False},
            "filterConds": {},
            "data": [],
        }
    return {
        **GOOD,
        "count": len(group.members),
        "topicSet": sorted(group.terms.topics),
        "consumeGroup": name,
        "re-rebalance": _out_members(master, group),
        "isBandConsume": KINDS[group.kind],
        **_kind_fields(group),
        "rebInfo": _rate(master, group),
        "filterConds": {topic: sorted(items) for topic, items in sorted(group.terms.conditions.items())},
        "data": [_member(master, group, member) for member in sorted(group.members)],
    }


def _out_members(master: MasterService, group: Group) -> dict[str, Any]:
    """Return the members that an operator wants to give up their partitions; `waitDuration` is in rounds of 30 s."""
    return {
        name: {
            "clientId": name,
            "status": _GIVING_UP if member.holds else _OUT,
            "createTime": group.taken_ms.get(name, 0),
            "reqType": 1,
            "waitDuration": master.group_room.rounds_left(group, name),
        }
        for name, member in sorted(group.view.members.items())
        if member.out_until_s is not None
    }


def _kind_fields(group: Group) -> dict[str, Any]:
    match group.kind:
        case GroupKind.BOUND:
            return {
                "isNotAllocate": group.not_allocated,
                "sessionKey": group.terms.session_key,
                "isSelectBig": group.terms.select_big,
                "reqSourceCount": group.terms.total_count,
                "curSourceCount": len(group.members),
                "rebalanceCheckTime": 0,  # rounds of waiting, of which there are none here
            }
        case GroupKind.CLIENT_BALANCE:
            return {
                "topicMetaId": UNDEFINED if group.meta is None else group.meta.meta_id,
                "metaDetails": [] if group.meta is None else group.meta.infos,
            }
        case _:
            return {}


def _rate(master: MasterService, group: Group) -> dict[str, Any]:
    """Return fields that tell if partitions were assigned, and the number of Brokers for each consumer."""
    if group.kind is GroupKind.CLIENT_BALANCE or group.not_allocated:
        return {"isRebalanced": False}
    record = master.catalogue.groups.get(group.name)
    configured = UNDEFINED if record is None else record.alwd_broker_client_rate
    allowed = configured if configured > 0 else MAX_BROKERS_PER_CLIENT
    available, _ = master.broker_room.topics.consumable(group.terms.topics)
    brokers = _brokers(available)
    rate = brokers // max(1, len(group.members))
    fields: dict[str, Any] = {
        "isRebalanced": True,
        "checkPasted": rate <= allowed,
        "defBClientRate": MAX_BROKERS_PER_CLIENT,
        "confBClientRate": configured,
        "curBClientRate": rate,
    }
    if rate > allowed:
        fields["minRequireClientCnt"] = members_for_rate(available, record)
    return fields


def _brokers(partitions: frozenset[Partition]) -> int:
    """Return the number of Brokers of the topic that is on most."""
    places = {(partition.topic, partition.broker_id) for partition in partitions}
    return max(Counter(topic for topic, _ in places).values(), default=0)


def _member(master: MasterService, group: Group, name: str) -> dict[str, Any]:
    info, member = group.members[name], group.view.members[name]
    parts = [
        {
            "partId": partition.partition_id,
            "brokerAddr": broker_text(master, partition.broker_id),
            "topicName": partition.topic,
        }
        for partition in sorted(member.holds)
    ]
    return {
        "consumerId": name,
        "receivedFrom": host_of(info.peer),
        "isOverTLS": info.over_tls,
        **_member_fields(group, member, info.node_id),
        "parCount": len(parts),
        "parInfo": parts,
    }


def _member_fields(group: Group, member: Member, node_id: int) -> dict[str, Any]:
    match group.kind:
        case GroupKind.BOUND:
            claims = [
                {"partitionKey": str(partition), "Offset": offset}
                for partition, offset in sorted(member.claims.items())
            ]
            return {"initReSetPartCount": len(claims), "initReSetPartInfo": claims}
        case GroupKind.CLIENT_BALANCE:
            return {"sourceCount": group.terms.total_count, "nodeId": node_id}
        case _:
            return {}


def host_of(peer: str) -> str:
    """Return the host of a connection's `host:port`, without the brackets of an IPv6 address."""
    return peer.rpartition(":")[0].strip("[]") or peer


def broker_text(master: MasterService, broker_id: int) -> str:
    """Return `id:ip:port` of a Broker; only the id if it has no record."""
    record = master.catalogue.brokers.get(broker_id)
    return str(broker_id) if record is None else f"{broker_id}:{record.address}"
