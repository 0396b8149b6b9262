"""How many clients there may be, and how much they may let this Master remember.

The invariant: what registered producers and consumers have told of themselves (topics, filters, partitions) is bounded
as they sent it, whoever they are; beyond it a client is refused with a text, and those that are in stay in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import Code
from pytubemq.master.answers import RefusalError

if TYPE_CHECKING:
    from collections.abc import Hashable


class Admission:
    """All registered clients with the bytes of what they said: of the registration, or of a longer heartbeat."""

    def __init__(self, *, max_clients: int, max_bytes: int) -> None:
        self._max_clients = max_clients
        self._max_bytes = max_bytes
        self._sizes: dict[Hashable, int] = {}
        self.total_bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def check(self, key: Hashable, size_bytes: int) -> None:
        """Whether a client may register, or say that much.

        Raises:
            RefusalError: there are too many, or they have said too much already.
        """
        known_bytes = self._sizes.get(key)
        if known_bytes is None and len(self._sizes) >= self._max_clients:
            raise RefusalError(
                Code.BAD_REQUEST, f"this Master has {len(self._sizes)} clients, {self._max_clients} are allowed"
            )
        more_bytes = max(0, size_bytes - (known_bytes or 0))
        if more_bytes and self.total_bytes + more_bytes > self._max_bytes:
            raise RefusalError(
                Code.BAD_REQUEST,
                f"the clients of this Master have told it {self.total_bytes} bytes of topics, filters and partitions, "
                f"and this one {more_bytes} more; {self._max_bytes} are allowed",
            )

    def enter(self, key: Hashable, size_bytes: int) -> None:
        """It was taken in with so much."""
        self.total_bytes += size_bytes - self._sizes.get(key, 0)
        self._sizes[key] = size_bytes

    def heard(self, key: Hashable, size_bytes: int) -> None:
        """A client that is in says so much in a heartbeat.

        Raises:
            RefusalError: it is too much with what all others have said.
        """
        known_bytes = self._sizes.get(key)
        if known_bytes is not None and size_bytes > known_bytes:
            self.check(key, size_bytes)
            self.enter(key, size_bytes)

    def leave(self, key: Hashable) -> None:
        """It is gone."""
        self.total_bytes -= self._sizes.pop(key, 0)
