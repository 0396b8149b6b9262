"""What a consumer asks a Broker about one partition.

The invariant: whatever the consumer is, a Broker hears of it under the same names: client id, group, visit token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.wire.messages.broker import (
    CommitOffsetRequestC2B,
    GetMessageRequestC2B,
    HeartBeatRequestC2B,
    RegisterRequestC2B,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.client.cluster import Cluster
    from pytubemq.client.flow import Flow
    from pytubemq.client.options import ConsumerOptions, FetchOptions
    from pytubemq.model.ids import Partition

REGISTER, UNREGISTER = 31, 32
DISCARD = 1
"""`readStatus` of an unregistration: what was fetched last is not confirmed."""


class Asker(Protocol):
    """Who asks."""

    cluster: Cluster
    client_id: str
    flow: Flow

    @property
    def options(self) -> ConsumerOptions:
        """What it was made with."""
        ...


def registration(
    who: Asker, partition: Partition, *, read_status: int, filters: Iterable[str], offset: int | None
) -> RegisterRequestC2B:
    """Hold a partition. An `offset` wins over what other members of the group have confirmed meanwhile."""
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
        auth_info=who.cluster.auth_info,
    )


def unregistration(who: Asker, partition: Partition) -> RegisterRequestC2B:
    """Hold it no more, and confirm nothing."""
    return RegisterRequestC2B(
        op_type=UNREGISTER,
        client_id=who.client_id,
        group_name=who.options.group,
        topic_name=partition.topic,
        partition_id=partition.partition_id,
        read_status=DISCARD,
        qry_priority_id=who.flow.priority,
        auth_info=who.cluster.auth_info,
    )


def heartbeat(who: Asker, partition_infos: Iterable[str]) -> HeartBeatRequestC2B:
    """Go on holding these partitions for us, each as `brokerId:host:port#topic:partitionId`."""
    return HeartBeatRequestC2B(
        client_id=who.client_id,
        group_name=who.options.group,
        read_status=0,
        partition_info=tuple(partition_infos),
        qry_priority_id=who.flow.priority,
        auth_info=who.cluster.auth_info,
    )


def fetch(who: Asker, partition: Partition, *, escapes: bool, limits: FetchOptions | None) -> GetMessageRequestC2B:
    """The next messages; `limits` only for a Broker that knows them. It never confirms anything."""
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


def commit(who: Asker, partition: Partition, *, up_to: int | None) -> CommitOffsetRequestC2B:
    """Confirm what was fetched last, or everything below `up_to` at a Broker that knows this."""
    return CommitOffsetRequestC2B(
        client_id=who.client_id,
        topic_name=partition.topic,
        partition_id=partition.partition_id,
        group_name=who.options.group,
        last_pack_consumed=True,
        up_to=up_to,
    )
