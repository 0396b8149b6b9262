"""Detection of duplicates by a producer's sequence numbers, per partition.

A producer that wants it numbers its messages; a Broker keeps a *window* for each producer and partition. The
invariants: a sequence that a window knows is never new again; one that the window no longer covers is refused, never
taken or dropped in silence; an older epoch of a producer can do nothing once a newer one was seen. A window is
bounded, whatever a producer sends, and noting the same thing twice changes nothing. How many windows there are, and
which are dropped when there are too many, is the matter of who keeps them (`storage.journal.windows`).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

MAX_GAPS: Final = 1_000
"""Ranges of known sequences that one window keeps apart; beyond it the lowest gap is given up."""
MAX_PLACES: Final = 64
"""Ranges of a window for which it still knows where they were stored."""
# A place is written to the checkpoint with a count of 32 bits.
_LARGEST_PLACE: Final = (1 << 32) - 1
MAX_SEQUENCE: Final = (1 << 63) - 2
"""The last one: an int64 holds what follows it, too."""
MAX_EPOCH: Final = (1 << 31) - 1
"""The largest epoch that a client may give; its meaning is the client's own matter."""
NOWHERE: Final = -1
"""In the place of an ordinal, an offset or a message id that is not remembered any more."""


class ProducerMark(NamedTuple):
    """The producer of a message, its epoch and sequence; all at least 0, `producer_id` at least 1.

    `sequence` is that of the first message where there are several; those after it follow.
    """

    producer_id: int
    epoch: int
    sequence: int


class StoredLocation(NamedTuple):
    """The stored location of so many messages from `sequence` on; ordinals and ids follow each other."""

    sequence: int
    messages: int
    ordinal: int
    message_id: int


class Verdict(Enum):
    """The verdicts of a window on a sequence."""

    NEW = "new"
    REPEATED = "repeated"
    FENCED = "fenced"
    """It is of an epoch older than one that was seen."""
    FORGOTTEN = "forgotten"
    """Too old to know whether it is a duplicate."""


class SequenceVerdict(NamedTuple):
    """A verdict on so many consecutive messages; `ordinal` and `message_id` of the first, if repeated."""

    messages: int
    verdict: Verdict
    ordinal: int = NOWHERE
    message_id: int = NOWHERE


class AppendedSpan(NamedTuple):
    """The outcome of so many consecutive messages of a record batch; those after the first follow in offset and id.

    `first_offset` and `first_message_id` are NOWHERE of refused ones, and of repeated ones whose place is not
    remembered any more. `code` is 200, or why they were refused, as `text` says.
    """

    messages: int
    code: int
    first_offset: int
    first_message_id: int
    repeated: bool = False
    text: str = ""


@dataclass(slots=True)
class Window:
    """The known sequences of one producer in one partition; below `floor` none are known."""

    epoch: int
    floor: int = 0
    runs: list[tuple[int, int]] = field(default_factory=list)
    """Sequences known, as [start, end), rising and apart from each other."""
    places: list[StoredLocation] = field(default_factory=list)
    """The newest of them, in the order stored."""

    def copy(self) -> Window:
        """Return a copy."""
        # Its entries are tuples, so new lists are enough.
        return Window(self.epoch, self.floor, self.runs.copy(), self.places.copy())

    def knows(self, sequence: int, count: int) -> bool:
        """True if all of these are known, or below the floor."""
        # Runs are apart, so all of them are known only if one run has them all.
        at = bisect_right(self.runs, sequence, key=_start) - 1
        return sequence + count <= self.floor or (at >= 0 and sequence + count <= self.runs[at][1])

    def _add(self, place: StoredLocation) -> None:
        start, end = place.sequence, place.sequence + place.messages
        runs = self.runs
        # The usual case by far: the producer's next messages.
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end)
        elif not runs or runs[-1][1] < start:
            runs.append((start, end))
        else:
            low = bisect_right(runs, start, key=_end_before)
            high = low
            while high < len(runs) and runs[high][0] <= end:
                start, end = min(start, runs[high][0]), max(end, runs[high][1])
                high += 1
            # Also what filled the gap between two runs makes one of them: a window without gaps is one pair of numbers.
            runs[low:high] = [(start, end)]
        # A producer that skips numbers on purpose must not make the window grow. The lowest gap is given up: what is
        # below the floor is refused from then on, rather than stored twice.
        if len(runs) > MAX_GAPS:
            del runs[0]
            self.floor = runs[0][0]
        places = self.places
        # What a producer sends in order, with nobody between, is one place however long it goes on.
        if places and _follows(places[-1], place):
            last = places[-1]
            places[-1] = StoredLocation(last.sequence, last.messages + place.messages, last.ordinal, last.message_id)
            return
        places.append(place)
        # A repeat of these is still known as one; only its offset is not returned any more.
        if len(places) > MAX_PLACES:
            del places[0]

    def _place_of(self, sequence: int) -> StoredLocation | None:
        # A producer sends again what it sent last, so the newest place is most likely the one. There are 64 at most.
        for place in reversed(self.places):
            if place.sequence <= sequence < place.sequence + place.messages:
                return place
        return None

    def repeats(self, sequence: int, end: int) -> list[SequenceVerdict]:
        """Return the known sequences from `sequence` to before `end`, cut where their places change."""
        found: list[SequenceVerdict] = []
        while sequence < end:
            place = self._place_of(sequence)
            if place is None:
                # Known, and stored where nobody remembers: one verdict up to the next place that is remembered.
                nearest = min((other.sequence for other in self.places if other.sequence > sequence), default=end)
                count = min(end, nearest) - sequence
                found.append(SequenceVerdict(count, Verdict.REPEATED))
            else:
                behind = sequence - place.sequence
                count = min(end - sequence, place.messages - behind)
                found.append(
                    SequenceVerdict(count, Verdict.REPEATED, place.ordinal + behind, place.message_id + behind)
                )
            sequence += count
        return found


def judge(window: Window | None, mark: ProducerMark, count: int) -> list[SequenceVerdict]:
    """Judge `count` messages from `mark` on; the verdicts cover them in order. Changes nothing."""
    # A newer epoch begins with an empty window: its sequences have nothing to do with those of the older one.
    if window is None or mark.epoch > window.epoch or not window.runs:
        return [SequenceVerdict(count, Verdict.NEW)]
    if mark.epoch < window.epoch:
        # Refused and not judged by sequence: its numbers are of a life of the producer that is over.
        return [SequenceVerdict(count, Verdict.FENCED)]
    runs = window.runs
    at, end = mark.sequence, mark.sequence + count
    # Beyond all that is known: new without a search, which is the way of every message that is no repeat.
    if at >= runs[-1][1]:
        return [SequenceVerdict(count, Verdict.NEW)]
    found: list[SequenceVerdict] = []
    if at < window.floor:
        stop = min(end, window.floor)
        # Stored or not, nobody knows. To store it could double it and to acknowledge it could lose it, so it is
        # refused.
        found.append(SequenceVerdict(stop - at, Verdict.FORGOTTEN))
        at = stop
    # The first run that ends behind `at`; those before it cannot have any of these.
    number = bisect_right(runs, at, key=_end)
    while at < end:
        start, known_end = runs[number] if number < len(runs) else (end, end)
        if at < start:
            stop = min(end, start)
            found.append(SequenceVerdict(stop - at, Verdict.NEW))
        else:
            stop = min(end, known_end)
            found += window.repeats(at, stop)
            number += 1
        at = stop
    return found


def note(window: Window | None, epoch: int, place: StoredLocation) -> Window:
    """Note stored messages and return the window, perhaps `window` itself. What it knows already changes nothing."""
    if window is None or epoch > window.epoch:
        # Sequences of the older epoch are forgotten: a producer that comes back numbers anew.
        window = Window(epoch)
    # Replay of the journal notes messages that the checkpoint's windows have already: the same window must come of it.
    elif epoch < window.epoch or window.knows(place.sequence, place.messages):
        return window
    window._add(place)
    return window


def _start(run: tuple[int, int]) -> int:
    return run[0]


def _end(run: tuple[int, int]) -> int:
    return run[1]


def _end_before(run: tuple[int, int]) -> int:
    """Return the sort key of a run that ends at a start behind it, so that the two become one."""
    return run[1] + 1


def _follows(last: StoredLocation, place: StoredLocation) -> bool:
    return (
        # Consecutive in all three, or the offset of a message in the middle could not be computed.
        last.messages + place.messages <= _LARGEST_PLACE
        and last.sequence + last.messages == place.sequence
        and last.ordinal + last.messages == place.ordinal
        and last.message_id + last.messages == place.message_id
    )
