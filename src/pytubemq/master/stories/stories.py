"""The events of each group and each Broker, for as long as this Master runs.

The invariant: events are bounded in age, in number for each subject and for all, and in the length of their texts; the
oldest go first. They are in memory: changes that people make are in the audit trail, which is stored.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

from pytubemq.model.limits import MAX_STORY_CHARS, MAX_STORY_EVENTS, MAX_STORY_EVENTS_OF_ONE, STORY_DAYS
from pytubemq.model.names import escaped

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from pytubemq.net.clock import Clock

_DAY_MS: Final = 86_400_000
_SHOWN: Final = 20
"""The partitions that a text names."""
_SORTED: Final = 1000
"""The most partitions that are sorted for a text. To sort 100,000 would hold up the event loop for seconds."""

Subject: TypeAlias = tuple[str, str]
"""A kind, `group` or `broker`, and a name."""


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """An event: its time (ms since 1970), its kind in one word, what happened, and why (blank if that says it)."""

    number: int
    ms: int
    event: str
    text: str
    why: str


class Stories:
    """The events of all groups and Brokers."""

    def __init__(
        self, clock: Clock, *, most: int = MAX_STORY_EVENTS, most_of_one: int = MAX_STORY_EVENTS_OF_ONE
    ) -> None:
        self.since_ms = clock.wall_ms()
        """The time from which on events are here."""
        self._clock = clock
        self._most = most
        self._most_of_one = most_of_one
        self._events: dict[Subject, deque[StoryEvent]] = {}
        self._order: deque[tuple[Subject, int]] = deque()
        """All events in the order in which they came, those that are gone from their subject included."""
        self._next = 0

    def __len__(self) -> int:
        return sum(map(len, self._events.values()))

    def record_group(self, name: str, event: str, text: str, why: str = "") -> None:
        """Record an event of a group."""
        self._record(("group", name), event, text, why)

    def record_broker(self, broker_id: int, event: str, text: str, why: str = "") -> None:
        """Record an event of a Broker."""
        self._record(("broker", str(broker_id)), event, text, why)

    def find(self, subject: Subject, *, since_ms: int = 0) -> list[StoryEvent]:
        """Return the events of a subject that are not older than `since_ms`, the newest first."""
        oldest_ms = max(since_ms, self._clock.wall_ms() - STORY_DAYS * _DAY_MS)
        return list(takewhile(lambda one: one.ms >= oldest_ms, reversed(self._events.get(subject, ()))))

    def _record(self, subject: Subject, event: str, text: str, why: str) -> None:
        now_ms = self._clock.wall_ms()
        self._next += 1
        events = self._events.setdefault(subject, deque(maxlen=self._most_of_one))
        events.append(StoryEvent(self._next, now_ms, event, _bounded(text), _bounded(why)))
        self._order.append((subject, self._next))
        oldest_ms = now_ms - STORY_DAYS * _DAY_MS
        while len(self._order) > self._most or self._is_old(self._order[0], oldest_ms):
            self._drop(*self._order.popleft())

    def _is_old(self, first: tuple[Subject, int], oldest_ms: int) -> bool:
        subject, number = first
        events = self._events.get(subject)
        return not events or events[0].number > number or events[0].ms < oldest_ms

    def _drop(self, subject: Subject, number: int) -> None:
        events = self._events.get(subject)
        if events and events[0].number == number:
            events.popleft()
            if not events:
                del self._events[subject]


def names_of(partitions: Collection[Hashable]) -> str:
    """Return partitions for a text: how many, and the first of them; of very many, any of them."""
    count = len(partitions)
    if not count:
        return "no partitions"
    looked_at = partitions if count <= _SORTED else islice(partitions, _SHOWN)
    names = sorted(map(str, looked_at))[:_SHOWN]
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    return f"{count} partition{'' if count == 1 else 's'}: {', '.join(names)}{more}"


def _bounded(text: str) -> str:
    return escaped(text[:MAX_STORY_CHARS])
