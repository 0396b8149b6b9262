"""Reader of lists that a server sends, entry by entry.

The invariants: an entry that cannot be read does not affect the others. It is logged at a bounded rate, so a server
that repeats it with each response does not fill the log.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, TypeVar

from pytubemq.errors import FormatError
from pytubemq.model.ids import STORE_BASE, Partition
from pytubemq.model.limits import MAX_KNOWN_PARTITIONS, WARNING_PERIOD_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytubemq.wire.text.topic_strings import TopicBroker, TopicMetaBroker

logger = logging.getLogger(__name__)

T = TypeVar("T")


class EntryReader:
    """A reader of lists that skips bad entries, with a rate-limited warning for each kind of list."""

    def __init__(self, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self.skipped = 0
        """Number of entries that could not be read."""
        self._now_s = now_s
        self._warned_s: dict[str, float] = {}

    def read(self, texts: Iterable[str], parse: Callable[[str], T], what: str) -> list[T]:
        """Return the entries that can be read; `what` names the list."""
        found: list[T] = []
        for text in texts:
            try:
                found.append(parse(text))
            except FormatError as error:
                self.skip(what, error)
        return found

    def skip(self, what: str, error: FormatError) -> None:
        """Count a skipped entry of a list, and warn of it at a bounded rate."""
        self.skipped += 1
        now_s = self._now_s()
        if now_s >= self._warned_s.get(what, now_s) + (WARNING_PERIOD_S if what in self._warned_s else 0.0):
            self._warned_s[what] = now_s
            logger.warning("skipped an entry of %s that cannot be read, the others are used: %s", what, error.message)


ENTRIES: Final = EntryReader()
"""The reader of this process."""


class PartitionBudget:
    """The limit on the partitions that one response may name, since few characters can name very many."""

    def __init__(self, what: str, entries: EntryReader = ENTRIES) -> None:
        self._what = what
        self._entries = entries
        self._left = MAX_KNOWN_PARTITIONS

    def partitions(
        self, topic: str, brokers: Iterable[TopicBroker | TopicMetaBroker]
    ) -> Iterator[tuple[int, Partition]]:
        """Yield the partitions of a topic, each with its Broker's index; those of one Broker all or none."""
        for index, broker in enumerate(brokers):
            count = broker.partitions * broker.stores
            if count > self._left:
                text = (
                    f"up to topic {topic} at Broker {broker.broker_id} it names over {MAX_KNOWN_PARTITIONS} partitions"
                )
                self._entries.skip(self._what, FormatError(text))
                continue
            self._left -= count
            for store in range(broker.stores):
                for number in range(broker.partitions):
                    yield index, Partition(broker.broker_id, topic, store * STORE_BASE + number)
