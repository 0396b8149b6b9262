"""How far each group has confirmed in each partition, as this Broker knows it before and after it is durable.

The invariants: a position is told as confirmed only once it is durable; one whose write failed is kept in memory, so
that reading goes on, and is written again as soon as writes succeed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytubemq.broker.submission import Confirmation, ConfirmSubmission, Refusal

if TYPE_CHECKING:
    from pytubemq.broker.append import AppendPath
    from pytubemq.broker.registry import HoldKey
    from pytubemq.storage.store import BrokerStore

logger = logging.getLogger(__name__)

Done = Callable[[Refusal | None], None]


class Positions:
    """The positions of all groups."""

    def __init__(self, store: BrokerStore, path: AppendPath) -> None:
        self._store = store
        self._path = path
        self._volatile: dict[HoldKey, int] = {}
        self._unwritten: set[HoldKey] = set()

    @property
    def unwritten(self) -> int:
        """Positions whose write failed and was not yet made good."""
        return len(self._unwritten)

    def current(self, key: HoldKey) -> int | None:
        """The newest position of a group in a partition, durable or on its way."""
        offset = self._volatile.get(key)
        return offset if offset is not None else self._store.confirmed(key.group, key.topic, key.partition_id)

    def save(self, key: HoldKey, offset: int, done: Done | None = None) -> None:
        """Make a position durable; `done` is called then, or at once if it is so already."""
        if key not in self._volatile and self._store.confirmed(key.group, key.topic, key.partition_id) == offset:
            if done is not None:
                done(None)
            return
        self._volatile[key] = offset

        def ended(refusal: Refusal | None) -> None:
            self._ended(key, offset, refusal)
            if done is not None:
                done(refusal)

        self._path.submit(ConfirmSubmission(Confirmation(key.group, key.topic, key.partition_id, offset), ended))

    def writable_again(self) -> None:
        """A write has succeeded: bring up what failed before."""
        if not self._unwritten:
            return
        keys, self._unwritten = self._unwritten, set()
        for key in keys:
            self.save(key, self._volatile[key])

    def _ended(self, key: HoldKey, offset: int, refusal: Refusal | None) -> None:
        if self._volatile.get(key) != offset:
            return  # a newer one is on its way
        if refusal is None:
            del self._volatile[key]
            self._unwritten.discard(key)
            return
        if key not in self._unwritten:
            logger.warning("the position of %s stays in memory for now: %s", key, refusal.text)
        self._unwritten.add(key)
