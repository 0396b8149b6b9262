"""Resets of a group's positions by a program.

The invariants: every Broker first checks whether it can be done, and nothing is moved unless all agree; what is
returned as moved is durable at its Broker.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from pytubemq.client.start_position import Start, named_start
from pytubemq.core.reset_target import ResetTarget, ResetTo, time_target
from pytubemq.errors import Code, ConfigError, refused
from pytubemq.model.ids import Partition
from pytubemq.model.limits import MAX_USER_CHARS
from pytubemq.model.names import check_group
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.extension import OffsetReset, ResetOffsetsRequest, ResetOffsetsResponse
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.text.positional import match_results

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.client.session.metadata import MetadataClient

USER = "client"
"""The user in the history of resets if the connection has no `client_name`."""
Moves = dict[Partition, tuple[int | None, int]]
"""The group's old position in each partition, None if it had none, and the new one."""


async def reset_group(
    cluster: Cluster,
    metadata: MetadataClient,
    group: str,
    topic: str,
    to: Start | str | datetime | int,
    *,
    partitions: Iterable[Partition] | None,
    dry_run: bool,
) -> Moves:
    """Move a group in a topic; see `Tube.reset_group`."""
    check_group(group)
    target = reset_target(to)
    found = await metadata.partitions(topic)
    wanted = found if partitions is None else list(dict.fromkeys(partitions))
    if partitions is not None and not wanted:
        raise ConfigError("no partition is named", hint="leave `partitions` out to move the group in all of them")
    for partition in wanted:
        if not isinstance(partition, Partition):
            raise ConfigError(
                f"not a Partition: {partition!r}", hint="give some of those that `await tube.partitions(topic)` lists"
            )
    strange = set(wanted).difference(found)
    if strange:
        raise ConfigError(
            f"partition {min(strange)} is none of topic {topic!r}", hint="tube.partitions(topic) lists them"
        )
    by_broker: dict[int, list[Partition]] = {}
    for partition in wanted:
        by_broker.setdefault(partition.broker_id, []).append(partition)
    moves = await _reset_all(cluster, metadata, group, by_broker, target, dry_run=True)
    return moves if dry_run else await _reset_all(cluster, metadata, group, by_broker, target, dry_run=False)


def reset_target(to: Start | str | datetime | int) -> ResetTarget:
    """Return the target that a program names, also a `Start` by its text; a time without a zone is of this machine's
    clock.

    Raises:
        ConfigError: it is none.
    """
    to = named_start(to)
    if isinstance(to, Start):
        return ResetTarget(ResetTo.EARLIEST if to is Start.EARLIEST else ResetTo.LATEST)
    if isinstance(to, datetime):
        return time_target(to)
    if isinstance(to, int) and not isinstance(to, bool) and to >= 0:
        return ResetTarget(ResetTo.OFFSET, offset=to)
    raise ConfigError(
        f"not a reset target: {to!r}",
        hint="give Start.EARLIEST or 'earliest', Start.LATEST or 'latest', a datetime, or an offset",
    )


async def _reset_all(
    cluster: Cluster,
    metadata: MetadataClient,
    group: str,
    by_broker: Mapping[int, Sequence[Partition]],
    target: ResetTarget,
    *,
    dry_run: bool,
) -> Moves:
    responses = await asyncio.gather(
        *(
            _reset_at(cluster, metadata, group, broker, theirs, target, dry_run=dry_run)
            for broker, theirs in by_broker.items()
        )
    )
    return {partition: moved for response in responses for partition, moved in response.items()}


async def _reset_at(
    cluster: Cluster,
    metadata: MetadataClient,
    group: str,
    broker_id: int,
    partitions: Sequence[Partition],
    target: ResetTarget,
    *,
    dry_run: bool,
) -> Moves:
    connection = await cluster.get_probed(cluster.address_of(broker_id), client_id=metadata.client_id)
    if Capability.RESET_OFFSETS not in connection.capabilities:
        raise ConfigError(
            f"the Broker {broker_id} at {connection.peer} cannot move groups: it is not a pytubemq Broker that can",
            hint="use its own page: /broker.htm?method=admin_set_offset",
        )
    response = await cluster.call_broker(
        connection,
        ResetOffsetsRequest(
            client_id=metadata.client_id,
            group_name=group,
            user=(cluster.options.client_name or USER)[:MAX_USER_CHARS],
            resets=tuple(_reset(partition, target) for partition in partitions),
            dry_run=dry_run or None,
            auth_info=cluster.auth_info_of(metadata.client_id),
        ),
        ResetOffsetsResponse,
        Method.RESET_OFFSETS,
    )
    moves: Moves = {}
    for partition, result in match_results(partitions, response.results, "partitions to reset"):
        if result.err_code != Code.SUCCESS:
            said = "nothing was moved" if dry_run else "some positions may have been moved"
            place = "choose a target that every partition has: 'earliest', 'latest' or a datetime"
            hint = place if result.err_code == Code.BAD_REQUEST else None
            raise refused(result.err_code, f"{said}: {result.err_msg}", hint=hint)
        moves[partition] = (result.old_offset, result.new_offset or 0)
    return moves


def _reset(partition: Partition, target: ResetTarget) -> OffsetReset:
    return OffsetReset(
        topic_name=partition.topic,
        partition_id=partition.partition_id,
        offset=target.offset,
        to=target.to.value if target.offset is None else None,
        time_ms=target.time_ms,
    )
