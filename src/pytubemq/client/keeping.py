"""What a held partition and its consumer have to say to each other.

The invariant: a held partition decides nothing about what is held; it tells, and its consumer decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.client import asks

if TYPE_CHECKING:
    from pytubemq.client.batch import Batch
    from pytubemq.client.events import Event
    from pytubemq.client.held import HeldPartition
    from pytubemq.client.options import FetchOptions
    from pytubemq.client.pace import Rates
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Partition


class Keeper(asks.Asker, Protocol):
    """What a held partition needs of its consumer."""

    fetch_options: FetchOptions | None
    rates: Rates
    seen: set[Partition]
    """Partitions that a Broker has registered for this client before."""
    occupied_for_s: float
    """How long another's hold on a partition is waited out."""

    def emit(self, event: Event) -> None:
        """Tell whoever listens."""

    @property
    def has_ready(self) -> bool:
        """Whether batches wait for the user already."""
        ...

    def brought(self, held: HeldPartition, batch: Batch) -> None:
        """A batch has come."""

    def counted(self, *, fetched: int = 0, confirmed: int = 0, skipped: int = 0) -> None:
        """Count messages."""

    def gave_up(self, held: HeldPartition, error: TubeError) -> None:
        """This partition cannot be had."""

    async def unreachable(self, held: HeldPartition, error: TubeError, *, again: bool) -> None:
        """Its Broker cannot be reached; `again`: not for the first time, so it may be somewhere else now."""

    def reached(self, held: HeldPartition) -> None:
        """Its Broker has taken the registration."""
