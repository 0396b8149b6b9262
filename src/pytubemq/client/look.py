"""What a Broker says about a partition when it is looked at without reading from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """A partition as its Broker sees it.

    `size_bytes` is what the messages between the two ends take on the Broker's disk; None where it does not tell.
    """

    min_offset: int
    """The first readable one."""
    max_offset: int
    """The one that the next message gets."""
    size_bytes: int | None = None
    at_offset: int | None = None
    """Of the first message appended at the time asked for or later; `max_offset` if there is none yet, None if no time
    was asked for."""
    position: int | None = None
    """How far the group asked for has confirmed; None if it has confirmed nothing here, or none was asked for."""
    held_by: str | None = None
    """The consumer of that group that holds the partition now."""


@dataclass(frozen=True, slots=True)
class Known:
    """What one process has learned of a cluster and another one can begin with, without asking a Master.

    `visit_token` is a secret of the cluster; it is not shown.
    """

    brokers: tuple[tuple[int, str, int], ...]
    """Id, host and port of each Broker."""
    visit_token: int

    def __repr__(self) -> str:
        return f"Known({len(self.brokers)} Brokers)"
