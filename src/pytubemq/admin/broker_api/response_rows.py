"""The form of a Broker's responses: the envelope is the Master's, but the rows have other names (the original's)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytubemq.admin.webapi.envelope import GOOD, Reply
from pytubemq.model.ids import STORE_BASE, UNDEFINED
from pytubemq.model.limits import MAX_FETCH_BYTES, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytubemq.broker.inspect import ConsumerFacts, GroupFacts, PartitionFacts
    from pytubemq.broker.members.flow_control import Meter

T = TypeVar("T")

NOTHING_READ: Final = -1
NO_DATA_LIMIT: Final = (2**63 - 1) // MIB


def data_set(rows: Iterable[Mapping[str, Any]], *, count: str = "totalCnt") -> Reply:
    """Return the response with a query's rows."""
    found = list(rows)
    return {**GOOD, "errMsg": "Success!", "dataSet": found, count: len(found)}


def by(items: Iterable[T], key: Callable[[T], str]) -> Iterable[tuple[str, list[T]]]:
    """Return sorted items in groups."""
    return ((name, list(found)) for name, found in groupby(items, key))


def known(value: int | None) -> int:
    """Return a number, or the original's value for an unknown one."""
    return UNDEFINED if value is None else value


def published(partition: PartitionFacts) -> dict[str, Any]:
    """Return a partition as `admin_query_pubinfo` shows it."""
    return {
        "partitionId": partition.partition_id,
        "offsetMin": partition.min_offset,
        "offsetMax": partition.max_offset,
        "dataMin": partition.min_position,
        "dataMax": partition.max_position,
    }


def store(store_id: int, partitions: Sequence[PartitionFacts]) -> dict[str, Any]:
    """Return a store: here it is no more than the sum of its partitions, each of which has a log of its own."""
    return {
        "storeId": store_id,
        "numPartition": len(partitions),
        "minDataOffset": sum(partition.min_position for partition in partitions),
        "maxDataOffset": sum(partition.max_position for partition in partitions),
        "sizeInBytes": sum(partition.size_bytes for partition in partitions),
        "partitionInfo": [
            {
                "partitionId": partition.partition_id,
                "minOffset": partition.min_offset,
                "maxOffset": partition.max_offset,
                "sizeInBytes": partition.size_bytes,
            }
            for partition in partitions
        ],
    }


def stores(partitions: Iterable[PartitionFacts]) -> list[dict[str, Any]]:
    """Return a topic's partitions by their stores."""
    found: dict[int, list[PartitionFacts]] = {}
    for partition in partitions:
        found.setdefault(partition.partition_id // STORE_BASE, []).append(partition)
    return [store(store_id, members) for store_id, members in found.items()]


def position(facts: GroupFacts) -> dict[str, Any]:
    """Return a group's position as `admin_query_offset` shows it."""
    partition, confirmed, at = facts.partition, facts.confirmed, facts.confirmed_position
    end = None if partition is None else partition.max_offset
    end_position = None if partition is None else partition.max_position
    return {
        "partitionId": facts.key.partition_id,
        "curOffset": known(confirmed),
        "flightOffset": facts.in_flight or 0,
        "curDataOffset": known(at),
        "offsetLag": known(_lag(confirmed, end)),
        "dataLag": known(_lag(at, end_position)),
        "offsetMax": known(end),
        "dataMax": known(end_position),
    }


def group(name: str, positions: Sequence[GroupFacts]) -> dict[str, Any]:
    """Return a group with all its positions."""
    topics = [
        {"topicName": topic, "offsets": [position(facts) for facts in members], "partCount": len(members)}
        for topic, members in by(positions, lambda facts: facts.key.topic)
    ]
    return {"groupName": name, "subInfo": topics, "topicCount": len(topics)}


def _lag(at: int | None, end: int | None) -> int | None:
    return None if at is None or end is None else max(0, end - at)


def flow(meter: Meter | None) -> dict[str, Any]:
    """Return a consumer's limit and recent reads under the cluster's rules, as the original shows them."""
    limit = None if meter is None else meter.limit
    in_window, in_minute = (0, 0) if meter is None else meter.given_bytes
    window_limit = None if meter is None else meter.window_limit_bytes
    return {
        "curDataLimitInM": NO_DATA_LIMIT if limit is None else limit.limit_mib,
        "curFreqLimit": 0 if limit is None else limit.freq_ms,
        "totalSentSec": in_window,
        "isSupportLimit": True,
        "sentUnitSec": 0 if window_limit is None else window_limit,
        "totalSentMin": in_minute,
        "sentUnit": MAX_FETCH_BYTES if window_limit is None else min(MAX_FETCH_BYTES, window_limit),
    }


def consumer(index: int, facts: ConsumerFacts) -> dict[str, Any]:
    """Return a consumer's registration as `admin_query_broker_all_consumer_info` shows it."""
    partition = facts.partition
    row: dict[str, Any] = {
        "index": index,
        "groupName": facts.key.group,
        "topicName": facts.key.topic,
        "partitionId": facts.key.partition_id,
        "consumerId": facts.consumer_id,
        "isRegOk": True,
        "lastRegTime": facts.heard_of_ms,
        "isFilterConsume": facts.filtered,
        "receivedFrom": facts.host,
        "qryPriorityId": facts.priority_id,
        **flow(facts.meter),
        "isMessageStoreOk": partition is not None,
    }
    if partition is not None:
        row |= {
            "tmpOffset": facts.in_flight,
            "minOffset": partition.min_offset,
            "maxOffset": partition.max_offset,
            "zkOffset": known(facts.confirmed),
            "minDataOffset": partition.min_position,
            "maxDataOffset": partition.max_position,
        }
    return row
