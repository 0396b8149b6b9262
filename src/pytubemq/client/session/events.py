"""Events that a client emits while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Address, Partition


@dataclass(frozen=True, slots=True)
class Connected:
    """A client is registered at the Master (again), or a Broker answers again."""

    client_id: str
    peer: Address | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The Master or a Broker cannot be reached, or has forgotten a client; it is tried again on its own."""

    client_id: str
    reason: TubeError
    peer: Address | None = None


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """A consumer got or gave partitions."""

    group: str
    gained: tuple[Partition, ...] = ()
    given: tuple[Partition, ...] = ()
    assignment: tuple[Partition, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Throttled:
    """A Broker or a flow-control rule makes this client wait."""

    reason: str
    wait_s: float
    partition: Partition | None = None


@dataclass(frozen=True, slots=True)
class SlowConsumer:
    """A batch was neither confirmed nor rejected in time; it was given back and comes again."""

    partition: Partition
    messages: int
    held_s: float


@dataclass(frozen=True, slots=True)
class ConfirmFailed:
    """A failed confirm: its batch is fetched again after a pause that grows with each failure."""

    partition: Partition
    messages: int
    reason: TubeError
    wait_s: float
    failures: int
    """Number of confirms of this partition that failed in a row."""


@dataclass(frozen=True, slots=True)
class PositionMoved:
    """A move of the group in a partition by somebody else: reading goes on at `offset`, and fetched messages are void.

    The confirm of a batch from before the move raises `StaleBatchError`.
    """

    partition: Partition
    offset: int | None


@dataclass(frozen=True, slots=True)
class Skipped:
    """Skipped messages: they could not be read (their checksum failed, or damage destroyed them), or retention removed
    them before the group confirmed them; `reason` says which. `offset` is the first one that could not be read, or
    where reading goes on behind those that retention removed."""

    partition: Partition
    messages: int
    reason: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class HandlerFailed:
    """The handler of a push consumer raised."""

    group: str
    partition: Partition
    messages: int
    """How many it was called with."""
    reason: BaseException
    then: str
    """What becomes of them: "retry", "skip" or "stop"."""


Event: TypeAlias = (
    Connected | Lost | Rebalanced | Throttled | SlowConsumer | ConfirmFailed | PositionMoved | Skipped | HandlerFailed
)
