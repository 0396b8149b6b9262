"""The division of partitions in a group whose nodes divide them themselves.

The invariants: every partition belongs to exactly one node, and all nodes that see the same set of partitions agree on
which; the loads of two nodes differ by at most one, over all and within each topic; whether a partition can be
consumed just now changes nothing of who it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pytubemq.model.ids import Partition


@dataclass(frozen=True, slots=True)
class Moves:
    """The changes that bring a node to its share, sorted."""

    release: tuple[Partition, ...] = ()
    connect: tuple[Partition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.release or self.connect)


def check_node(source_count: int, node_id: int) -> None:
    """Refuse a node that is none of the group's.

    Raises:
        ConfigError: `node_id` is not in [0, source_count).
    """
    if source_count < 1 or not 0 <= node_id < source_count:
        raise ConfigError(
            f"node_id is {node_id} and source_count is {source_count}",
            hint="number the members of the group from 0 to source_count - 1",
        )


def share_of(partitions: Iterable[Partition], *, source_count: int, node_id: int) -> frozenset[Partition]:
    """Return the node's part of all configured partitions.

    They are dealt out in turn, in the order of topic, partition id and Broker. So a topic that is the last, or the
    only one, grows on all its Brokers without moving what was there.

    Raises:
        ConfigError: there is no such node.
    """
    check_node(source_count, node_id)
    # Partition id before Broker: what a topic gains on all its Brokers is at its end then.
    dealt = sorted(set(partitions), key=lambda one: (one.topic, one.partition_id, one.broker_id))
    # In turn and not in blocks, so that each topic is spread over all nodes.
    return frozenset(dealt[node_id::source_count])


def next_moves(
    configured: Mapping[Partition, bool], held: Collection[Partition], *, source_count: int, node_id: int
) -> Moves:
    """Return the partitions to disconnect from and those to connect to.

    Args:
        configured: every partition that the topics have, with whether it can be consumed now.
        held: what this node holds.
        source_count: how many nodes the group has.
        node_id: which one this is.

    Raises:
        ConfigError: there is no such node.
    """
    share = share_of(configured, source_count=source_count, node_id=node_id)
    mine = frozenset(held)
    return Moves(
        # Also what cannot be consumed now: else the Broker would refuse its new owner (410) once it can.
        release=tuple(sorted(mine - share)),
        # What cannot be consumed now is connected to once it can; the share stays the same meanwhile.
        connect=tuple(sorted(partition for partition in share - mine if configured[partition])),
    )
