"""Methods about the current state: this Master, and the groups that have members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.admin.webapi.envelope import GOOD, Reply, rows, success
from pytubemq.admin.webapi.kinds import CONSUMER_ID, GROUP, TOPIC, Int, ListOf, shown
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.methods.group_detail import describe
from pytubemq.admin.webapi.params import OPS_UPD, Args, CallError, Param
from pytubemq.model.ids import Address

if TYPE_CHECKING:
    from pytubemq.master.groups.group import Group
    from pytubemq.master.service import MasterService

MAX_SAT_OUT = 1_000_000
"""The most balance rounds that members may sit out; nearly a year of them."""

_GROUP_LIST = Param("groupName", ListOf(GROUP), old=("consumeGroup",))
_TOPIC_LIST = Param("topicName", ListOf(TOPIC))


async def _server_version(master: MasterService, _: Args) -> Reply:
    return rows([{"version": master.version}])


async def _masters(master: MasterService, _: Args) -> Reply:
    cluster = await master.cluster()
    found = []
    for index, one in enumerate(cluster.masters, 1):
        address = Address.parse(one.address)
        found.append(
            {
                "index": index,
                "name": one.address,
                "hostName": address.host,
                "port": str(address.port),
                "statusInfo": {"nodeStatus": "Master" if one.leads else "Slave", "joinTime": str(master.started_ms)},
            }
        )
    return {
        **GOOD,
        "errMsg": "Ok",
        "groupName": cluster.name,
        "isPrimaryNodeActive": False,
        "data": found,
        "count": len(found),
        "groupStatus": "Running-ReadWrite",
    }


def _online(master: MasterService, args: Args) -> list[Group]:
    """Return the groups with members, of those named that the caller sees, with a subscription to a named topic."""
    groups, topics = frozenset(args.get("groupName", ())), frozenset(args.get("topicName", ()))
    return [
        group
        for name, group in sorted(master.group_room.groups.items())
        if (not groups or name in groups)
        and (not topics or not topics.isdisjoint(group.terms.topics))
        and args.shows_group(name)
    ]


async def _subscriptions(master: MasterService, args: Args) -> Reply:
    return rows(
        {"consumeGroup": group.name, "topicSet": sorted(group.terms.topics), "consumerNum": len(group.members)}
        for group in _online(master, args)
    )


async def _groups_by_topic(master: MasterService, args: Args) -> Reply:
    wanted = args.get("topicName", ())
    found: dict[str, list[str]] = {topic: [] for topic in wanted}
    for group in _online(master, args):
        for topic in group.terms.topics:
            if not wanted or topic in wanted:
                found.setdefault(topic, []).append(group.name)
    return rows(
        {"topicName": topic, "groupSet": groups, "groupCnt": len(groups)} for topic, groups in sorted(found.items())
    )


async def _group_detail(master: MasterService, args: Args) -> Reply:
    return describe(master, args["groupName"])


async def _client_balance_groups(master: MasterService, _: Args) -> Reply:
    found = master.group_room.client_balance_groups()
    return {**GOOD, "data": found, "count": len(found)}


async def _rebalance(master: MasterService, args: Args) -> Reply:
    name, members = args["groupName"], args["consumerId"]
    group = master.group_room.groups.get(name)
    if group is None:
        raise CallError(f"group {name} has no members now: admin_query_sub_info lists the groups that have")
    unknown = [member for member in members if member not in group.members]
    if unknown:
        raise CallError(f"{shown(unknown[0])} is not in group {name}: admin_query_consume_group_detail lists who is")
    out = [member for member in members if group.view.members[member].out_until_s is not None]
    if out:
        raise CallError(f"{shown(out[0])} is giving up its partitions already: wait until it has some again")
    master.group_room.rebalance(name, members, args["reJoinWait"])
    return success()


async def _consume_from_max(master: MasterService, args: Args) -> Reply:
    if not master.group_room.consume_from_max(args["groupName"]):
        raise CallError(
            "none of these groups has members that share the partitions among themselves: "
            "admin_query_client_balance_group_set names those that do"
        )
    return success()


METHODS: tuple[Method[MasterService], ...] = (
    Method("admin_query_server_version", "The version of this software.", False, (), _server_version),
    Method("admin_query_master_group_info", "The Masters of the cluster.", False, (), _masters),
    Method(
        "admin_query_sub_info",
        "The groups that have members, their topics, and how many members.",
        False,
        (_GROUP_LIST, _TOPIC_LIST),
        _subscriptions,
    ),
    Method(
        "admin_query_group_info_by_topic",
        "The groups that have members and subscribe to a topic.",
        False,
        (_TOPIC_LIST,),
        _groups_by_topic,
    ),
    Method(
        "admin_query_consume_group_detail",
        "One group: its settings, its members, and their partitions.",
        False,
        (Param("groupName", GROUP, required=True, old=("consumeGroup",)),),
        _group_detail,
    ),
    Method(
        "admin_query_client_balance_group_set",
        "The groups whose members share the partitions among themselves.",
        False,
        (),
        _client_balance_groups,
    ),
    Method(
        "admin_rebalance_group_allocate",
        "Make members of a group give up their partitions; after `reJoinWait` rounds of 30 s they may have some again.",
        True,
        (
            *OPS_UPD,
            Param("groupName", GROUP, required=True),
            Param("consumerId", ListOf(CONSUMER_ID), required=True),
            Param("reJoinWait", Int(0, MAX_SAT_OUT), default=0),
        ),
        _rebalance,
    ),
    Method(
        "admin_set_client_balance_group_consume_from_max",
        "Let such groups continue from the newest messages; other groups in the list are ignored.",
        True,
        (*OPS_UPD, Param("groupName", ListOf(GROUP), required=True)),
        _consume_from_max,
    ),
)
