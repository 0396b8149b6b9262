"""The contract of an elector.

The invariants: of all that stand for the same leadership one leads at a time, by its own clock; each leader has a
larger epoch than the ones before; one that cannot prove its lease stops leading before others may take it. What it
writes meanwhile is refused by the store, which compares the epoch.
"""

from __future__ import annotations

from typing import Protocol


class Elector(Protocol):
    """One Master's part in the election. It leads once: after the end of that, a new one stands again."""

    @property
    def leads(self) -> bool:
        """True while this Master leads; exact at each moment, also where the process was stopped meanwhile."""
        ...

    @property
    def leader(self) -> str:
        """The address of the Master that leads as far as is known here; blank if none is known to."""
        ...

    async def lead(self) -> int:
        """Wait until this Master leads, for as long as it takes; return its epoch.

        Raises:
            ClosedError: it was closed meanwhile.
            ConfigError: the place of the election refuses this Master.
            StorageError: its records are damaged or made by a newer version.
        """
        ...

    async def until_lost(self) -> str:
        """Wait until this Master, which has led, no longer leads; return the reason."""
        ...

    async def close(self) -> None:
        """Stop leading, and give the lease back, so that another may lead at once. Idempotent, bounded in time."""
        ...
