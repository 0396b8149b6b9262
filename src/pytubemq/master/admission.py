"""How many clients there may be, and how much they may let this Master remember.

The invariant: what registered producers and consumers have told of themselves (topics, filters, partitions) is bounded
as they sent it, whoever they are; beyond it a new client is refused with a text, and those that are in stay in: neither
a heartbeat nor another registration of theirs is refused for its size, because a refusal would be their end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import Code
from pytubemq.master.answers import RefusalError

if TYPE_CHECKING:
    from collections.abc import Hashable


class Admission:
    """All registered clients with the bytes of what they said: of the registration, or of a longer last heartbeat."""

    def __init__(self, *, max_clients: int, max_bytes: int) -> None:
        self._max_clients = max_clients
        self._max_bytes = max_bytes
        self._sizes: dict[Hashable, int] = {}
        self._registered: dict[Hashable, int] = {}
        self.total_bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def check(self, key: Hashable, size_bytes: int) -> None:
        """Whether a client may register that says so much; one that is in may, whatever it says.

        Raises:
            RefusalError: there are too many, or they have said too much already.
        """
        if key in self._sizes:
            return
        if len(self._sizes) >= self._max_clients:
            raise RefusalError(
                Code.BAD_REQUEST, f"this Master has {len(self._sizes)} clients, {self._max_clients} are allowed"
            )
        if self.total_bytes + size_bytes > self._max_bytes:
            raise RefusalError(
                Code.BAD_REQUEST,
                f"the clients of this Master have told it {self.total_bytes} bytes of topics, filters and partitions, "
                f"and this one {size_bytes} more; {self._max_bytes} are allowed",
            )

    def enter(self, key: Hashable, size_bytes: int) -> None:
        """It was taken in with so much."""
        self._registered[key] = size_bytes
        self._count(key, size_bytes)

    def heard(self, key: Hashable, size_bytes: int) -> None:
        """A client that is in says so much in a heartbeat, in place of what its last one said; never refused.

        It counts no less than its registration, whose filters are remembered and are in no heartbeat.
        """
        registered_bytes = self._registered.get(key)
        if registered_bytes is not None:
            self._count(key, max(size_bytes, registered_bytes))

    def leave(self, key: Hashable) -> None:
        """It is gone."""
        self._registered.pop(key, None)
        self.total_bytes -= self._sizes.pop(key, 0)

    def _count(self, key: Hashable, size_bytes: int) -> None:
        self.total_bytes += size_bytes - self._sizes.get(key, 0)
        self._sizes[key] = size_bytes
