"""What the API asks of a Master: any object with these functions will do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class MasterOperations(Protocol):
    """The Master's plain functions. Answers are structures that msgspec can encode; errors are TubeErrors."""

    @property
    def version(self) -> str:
        """Of the software."""
        ...

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        max_message_bytes: int | None = None,
        delete_policy: str | None = None,
        durability: str | None = None,
    ) -> Any:
        """Make a topic; it can be used when this returns."""
        ...

    async def alter_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        max_message_bytes: int | None = None,
        delete_policy: str | None = None,
        durability: str | None = None,
    ) -> Any:
        """Change a topic; None = stays."""
        ...

    async def delete_topic(self, name: str) -> Any:
        """Remove a topic with its messages; `removed` of the answer is false where Brokers are still at it."""
        ...

    async def topics(self) -> Sequence[Any]:
        """All topics."""
        ...

    async def topic(self, name: str) -> Any:
        """One topic."""
        ...

    async def brokers(self) -> Sequence[Any]:
        """All Brokers."""
        ...

    async def groups(self) -> Sequence[Any]:
        """All groups."""
        ...

    async def group(self, name: str) -> Any:
        """One group."""
        ...

    async def reset_group(
        self,
        name: str,
        topic: str,
        to: str,
        *,
        partitions: Sequence[str] = (),
        dry_run: bool = False,
        user: str = "",
    ) -> Any:
        """Move a group in a topic; durable when this returns."""
        ...

    async def group_resets(self, name: str) -> Any:
        """What was moved before."""
        ...

    async def defaults(self) -> Any:
        """What holds for topics that say nothing else."""
        ...

    async def alter_defaults(
        self,
        *,
        max_message_bytes: int | None = None,
        delete_policy: str | None = None,
        durability: str | None = None,
    ) -> Any:
        """Change that; None = stays."""
        ...

    async def health(self) -> Any:
        """The verdict; `status` is `healthy` when there is nothing to say."""
        ...

    async def cluster(self) -> Any:
        """Who is in the cluster."""
        ...
