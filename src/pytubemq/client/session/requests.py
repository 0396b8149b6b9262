"""Requests that a consumer sends to a Broker about one partition.

The invariant: all of them carry the same client id, group and visit token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.wire.protocol.messages.broker import (
    CommitOffsetRequestC2B,
    GetMessageRequestC2B,
    HeartBeatRequestC2B,
    RegisterRequestC2B,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.client.options import ConsumerOptions, FetchOptions
    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.client.session.flow_rules import FlowControl
    from pytubemq.model.ids import Partition

REGISTER, UNREGISTER = 31, 32
DISCARD = 1
"""`readStatus` of an unregistration: what was fetched last is not confirmed."""


class Requester(Protocol):
    """A client that sends these requests."""

    cluster: Cluster
    client_id: str
    flow: FlowControl

    @property
    def options(self) -> ConsumerOptions:
        """The options it was made with."""
        ...


def registration(
    who: Requester, partition: Partition, *, read_status: int, filters: Iterable[str], offset: int | None
) -> RegisterRequestC2B:
    """Return the request to register a partition. An `offset` overrides what other members have confirmed meanwhile."""
    return RegisterRequestC2B(
        op_type=REGISTER,
        client_id=who.client_id,
        group_name=who.options.group,
        topic_name=partition.topic,
        partition_id=partition.partition_id,
        read_status=read_status,
        filter_cond_str=tuple(sorted(filters)),
        curr_offset=offset,
        qry_priority_id=who.flow.priority,
        auth_info=who.cluster.auth_info_of(who.client_id),
    )


def unregistration(who: Requester, partition: Partition) -> RegisterRequestC2B:
    """Return the request to unregister a partition, confirming nothing."""
    return RegisterRequestC2B(
        op_type=UNREGISTER,
        client_id=who.client_id,
        group_name=who.options.group,
        topic_name=partition.topic,
        partition_id=partition.partition_id,
        read_status=DISCARD,
        qry_priority_id=who.flow.priority,
        auth_info=who.cluster.auth_info_of(who.client_id),
    )


def heartbeat(who: Requester, partition_infos: Iterable[str]) -> HeartBeatRequestC2B:
    """Return the heartbeat for these partitions, each as `brokerId:host:port#topic:partitionId`."""
    return HeartBeatRequestC2B(
        client_id=who.client_id,
        group_name=who.options.group,
        read_status=0,
        partition_info=tuple(partition_infos),
        qry_priority_id=who.flow.priority,
        auth_info=who.cluster.auth_info_of(who.client_id),
    )


def fetch(who: Requester, partition: Partition, *, escapes: bool, limits: FetchOptions | None) -> GetMessageRequestC2B:
    """Return the request for the next messages, with `limits` for a Broker that knows them. It never confirms
    anything."""
    return GetMessageRequestC2B(
        client_id=who.client_id,
        partition_id=partition.partition_id,
        group_name=who.options.group,
        topic_name=partition.topic,
        last_pack_consumed=False,
        manual_commit_offset=False,
        esc_flow_ctrl=escapes,
        max_wait_ms=None if limits is None else int(limits.max_wait_s * 1000),
        max_messages=None if limits is None else limits.max_messages,
        max_bytes=None if limits is None else limits.max_bytes,
    )


def commit(who: Requester, partition: Partition, *, up_to: int | None) -> CommitOffsetRequestC2B:
    """Return the request to confirm what was fetched last, or everything below `up_to` at a Broker that knows this."""
    return CommitOffsetRequestC2B(
        client_id=who.client_id,
        topic_name=partition.topic,
        partition_id=partition.partition_id,
        group_name=who.options.group,
        last_pack_consumed=True,
        up_to=up_to,
    )
