"""The state of a partition at its Broker, and what one process can pass on to another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """The state of a partition at its Broker.

    `size_bytes` is what the messages between the two ends take on the Broker's disk; None where it does not say.
    """

    min_offset: int
    """The first readable offset."""
    max_offset: int
    """The offset that the next message gets."""
    size_bytes: int | None = None
    at_offset: int | None = None
    """The offset of the first message appended at the requested time or later; `max_offset` if there is none yet, None
    if no time was requested."""
    position: int | None = None
    """The position of the requested group; None if it has confirmed nothing here, or none was requested."""
    held_by: str | None = None
    """The consumer of that group that holds the partition now."""


@dataclass(frozen=True, slots=True)
class Known:
    """State of a cluster that one process passes on to another, which then needs no Master to begin.

    `visit_token` and `client_token` are not shown.
    """

    brokers: tuple[tuple[int, str, int], ...]
    """Id, host and port of each Broker."""
    visit_token: int
    client_id: str = ""
    """The client whose token this is; blank where there is none."""
    client_token: str = ""
    """Its token of limited life, in place of the secret; blank where the cluster issues none."""

    def __repr__(self) -> str:
        return f"Known({len(self.brokers)} Brokers)"
