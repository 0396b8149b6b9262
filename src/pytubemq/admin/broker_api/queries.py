"""Methods that query topics, positions, consumers and messages. None of them changes anything."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from pytubemq._version import __version__
from pytubemq.admin.broker_api.response_rows import (
    NOTHING_READ,
    by,
    consumer,
    data_set,
    group,
    known,
    published,
    stores,
)
from pytubemq.admin.webapi.envelope import GOOD, Reply
from pytubemq.admin.webapi.kinds import GROUP, TOPIC, Bool, FilterItems, Int, ListOf
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.params import Args, CallError, Param
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.errors import Code
from pytubemq.model.limits import MAX_SHOWN_MESSAGES

if TYPE_CHECKING:
    from pytubemq.broker.service import BrokerService

GROUPS: Final = Param("groupName", ListOf(GROUP), default=())
TOPICS: Final = Param("topicName", ListOf(TOPIC), default=())
ONE_GROUP: Final = Param("groupName", GROUP, required=True)
ONE_TOPIC: Final = Param("topicName", TOPIC, required=True)
PARTITION: Final = Param("partitionId", Int(0), required=True)
_LEAST_SHOWN: Final = 3


async def _version(_: BrokerService, __: Args) -> Reply:
    return {**GOOD, "data": [{"version": __version__}]}


async def _group_offset(broker: BrokerService, args: Args) -> Reply:
    key = RegistrationKey(args["groupName"], args["topicName"], args["partitionId"])
    facts = await broker.inspect.position(key)
    partition = facts.partition
    assert partition is not None  # else the call was refused
    reply = {
        **GOOD,
        "errMsg": "OK!",
        "tmpOffset": facts.in_flight or 0,
        "minOffset": partition.min_offset,
        "maxOffset": partition.max_offset,
        "minDataOffset": partition.min_position,
        "maxDataOffset": partition.max_position,
    }
    if args["requireRealOffset"]:
        at = facts.read_position
        reply |= {
            "zkOffset": known(facts.confirmed),
            "curReadDataOffset": NOTHING_READ if at is None else at,
            "curRdDltDataOffset": NOTHING_READ if at is None else partition.max_position - at,
        }
    return reply


async def _offsets(broker: BrokerService, args: Args) -> Reply:
    found = await broker.inspect.positions(args["groupName"], args["topicName"])
    return data_set(group(name, members) for name, members in by(found, lambda facts: facts.key.group))


async def _group_names(broker: BrokerService, args: Args) -> Reply:
    every, online = await broker.inspect.groups()
    sets = [("online", online), ("offline", every - online)] if args["divide"] else [("all", every)]
    rows = [{"type": name, "groupName": sorted(groups), "groupCount": len(groups)} for name, groups in sets]
    return data_set(rows, count="dataCount")


async def _published(broker: BrokerService, args: Args) -> Reply:
    return data_set(
        (
            {"topicName": topic, "offsetInfo": [published(one) for one in partitions], "itemCount": len(partitions)}
            for topic, partitions in by(broker.inspect.partitions(args["topicName"]), lambda one: one.topic)
        ),
        count="dataCount",
    )


async def _registrations(broker: BrokerService, args: Args) -> Reply:
    return data_set(
        {"Partition": str(facts.key), "Consumer": facts.consumer_id, "index": index}
        for index, facts in enumerate(broker.inspect.consumers(args["groupName"]), 1)
    )


async def _consumers(broker: BrokerService, args: Args) -> Reply:
    found = broker.inspect.consumers(args["groupName"])
    return data_set(consumer(index, facts) for index, facts in enumerate(found, 1))


async def _stores(broker: BrokerService, args: Args) -> Reply:
    found = by(broker.inspect.partitions(args["topicName"]), lambda one: one.topic)
    return data_set(
        {"index": index, "topicName": topic, "storeInfo": stores(partitions)}
        for index, (topic, partitions) in enumerate(found, 1)
    )


async def _messages(broker: BrokerService, args: Args) -> Reply:
    partition_id = None if args["partitionId"] < 0 else args["partitionId"]
    count = min(max(args["msgCount"], _LEAST_SHOWN), MAX_SHOWN_MESSAGES)
    found = await broker.inspect.newest(args["topicName"], partition_id, count=count, filters=args["filterConds"])
    if not found:
        what = "no message that passes the filter is among the newest of" if args["filterConds"] else "no message is in"
        raise CallError(f"{what} the partition: try another one, or retry later", code=Code.UNAUTHORIZED)
    return data_set(
        {
            "index": index,
            "offset": message.offset,
            "data": b64encode(message.body).decode(),
            "attr": message.attributes or "",
        }
        for index, message in enumerate(found)
    )


METHODS: tuple[Method[BrokerService], ...] = (
    Method("admin_query_server_version", "The version of this software.", False, (), _version),
    Method(
        "admin_query_group_offset",
        "A group's offset in one partition; -2 if it has confirmed nothing yet.",
        False,
        (ONE_TOPIC, ONE_GROUP, PARTITION, Param("requireRealOffset", Bool(), default=False)),
        _group_offset,
    ),
    Method("admin_query_offset", "Groups' offsets, with their lags.", False, (GROUPS, TOPICS), _offsets),
    Method(
        "admin_get_booked_groupname",
        "The groups that have an offset or a consumer here; with `divide` those with a consumer and the others.",
        False,
        (Param("divide", Bool(), default=False),),
        _group_names,
        aliases=("admin_query_group",),
    ),
    Method("admin_query_pubinfo", "First and last offset of each partition.", False, (TOPICS,), _published),
    Method(
        "admin_get_partition_reginfo",
        "The consumers with the partitions that they read.",
        False,
        (GROUPS,),
        _registrations,
        aliases=("admin_query_consumer_regmap",),
    ),
    Method(
        "admin_get_group_detail_info",
        "Consumers with their partitions and offsets.",
        False,
        (GROUPS,),
        _consumers,
        aliases=("admin_query_broker_all_consumer_info",),
    ),
    Method(
        "admin_query_broker_all_store_info",
        "The size of each topic's stores and partitions in bytes.",
        False,
        (TOPICS,),
        _stores,
    ),
    Method(
        "admin_snapshot_message",
        "The newest messages of a partition (without one: of the topic's first), 3 to 50, bodies in base64.",
        False,
        (
            ONE_TOPIC,
            Param("partitionId", Int(-1), default=-1),
            Param("msgCount", Int(1), default=_LEAST_SHOWN),
            Param("filterConds", FilterItems(), default=frozenset()),
        ),
        _messages,
    ),
)
