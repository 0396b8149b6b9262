"""How far one partition has been fetched, handed out and confirmed.

The invariants: confirmed <= handed out <= fetched; at most one batch is with the user, and at most one before it has a
confirm under way; what is given back is fetched again from where it began, and so is all behind a confirm that fails; a
batch can only be settled while it is the one that is held (its `ticket` says so).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pytubemq.model.offset import messages_between


class Hold(Enum):
    """What is with this client."""

    NOTHING = "nothing"
    FETCHED = "fetched"
    HANDED_OUT = "handed out"
    SETTLING = "settling"


class Behind(NamedTuple):
    """What lies before the batch that is held, or the next one: a confirm of it is under way."""

    ticket: int
    start: int | None
    end: int
    """Where it ends, with what a filter passed over behind it."""


@dataclass(slots=True)
class Watermarks:
    """One partition's progress. Offsets are None until the Broker has told them."""

    hold: Hold = Hold.NOTHING
    ticket: int = 0
    start: int | None = None
    """Where the fetch that is held, or the next one, begins."""
    fetched: int | None = None
    confirmed: int | None = None
    newest: int | None = None
    """The partition's end: the offset its next message gets."""
    behind: Behind | None = None

    def registered(self, position: int | None, newest: int | None) -> None:
        """The Broker (again) holds this partition for us, at `position`; whatever it had handed us it will hand again.

        A batch in the hands of the user stays there: it may still be confirmed, by offset.
        """
        if self.hold is Hold.FETCHED:
            self.give_back()
        if position is not None and position >= 0:
            if self.hold is Hold.NOTHING:
                # what has a confirm under way is confirmed again, so it does not come again
                self.start = self.fetched = position if self.behind is None else max(position, self.behind.end)
            if self.confirmed is None or position > self.confirmed:
                self.confirmed = position
        self.saw_newest(newest)

    def took(self, start: int | None, end: int | None, newest: int | None) -> int:
        """A fetch brought messages in [start, end); returns the batch's ticket."""
        self.hold = Hold.FETCHED
        self.ticket += 1
        if start is not None:
            self.start = start
        self.fetched = end
        self.saw_newest(newest)
        return self.ticket

    def skipped(self, end: int | None, newest: int | None) -> None:
        """A fetch brought nothing for us; the Broker has passed `end` by itself."""
        if end is not None and end >= 0 and (self.start is None or end > self.start):
            self.start = self.fetched = end
        if end is not None and self.behind is not None:
            self.behind = self.behind._replace(end=max(end, self.behind.end))
        elif end is not None and end > (self.confirmed or 0):
            self.confirmed = end
        self.saw_newest(newest)

    def handed_out(self) -> None:
        """The user has the batch."""
        self.hold = Hold.HANDED_OUT

    def holds(self, ticket: int) -> bool:
        """Whether the batch with this ticket may be settled now."""
        return self.hold is Hold.HANDED_OUT and self.ticket == ticket

    def settling(self) -> None:
        """A confirm is on its way."""
        self.hold = Hold.SETTLING

    def settles(self, ticket: int) -> bool:
        """True if a confirm of this batch still counts, because it was neither confirmed nor returned."""
        if self.behind is not None and self.behind.ticket == ticket:
            return True
        return self.hold is Hold.SETTLING and self.ticket == ticket

    def went_on(self, ticket: int) -> None:
        """The confirm was sent, by offset, and its answer is not waited for: the next batch begins where it ends."""
        if self.hold is Hold.SETTLING and self.ticket == ticket and self.fetched is not None:
            self.behind = Behind(ticket, self.start, self.fetched)
            self.hold = Hold.NOTHING
            self.start = self.fetched

    def settled(self, ticket: int) -> None:
        """The Broker has taken the confirm of this batch; nothing if its place was left meanwhile."""
        if self.behind is not None and self.behind.ticket == ticket:
            self.confirmed = max(self.behind.end, self.confirmed or 0)
            self.behind = None
        elif self.hold is Hold.SETTLING and self.ticket == ticket:
            self.hold = Hold.NOTHING
            if self.fetched is not None:
                self.start = self.fetched
                self.confirmed = max(self.fetched, self.confirmed or 0)

    def refused(self, ticket: int) -> bool:
        """The confirm of this batch failed: it comes again, and so does all behind it. Whether that was so."""
        if self.behind is not None and self.behind.ticket == ticket:
            self.start, self.behind = self.behind.start, None
            self.give_back()
            self.ticket += 1  # whoever has the one behind it holds it no more
            return True
        if self.hold is Hold.SETTLING and self.ticket == ticket:
            self.give_back()
            return True
        return False

    def leave(self) -> None:
        """The place is left for another: nothing that was fetched here is held any more."""
        self.behind = None
        self.give_back()

    def give_back(self) -> None:
        """The held batch is not confirmed and comes again."""
        self.hold = Hold.NOTHING
        self.fetched = self.start

    def saw_newest(self, newest: int | None) -> None:
        """The Broker told the partition's end."""
        if newest is not None and newest >= 0:
            self.newest = newest

    def lag(self) -> int | None:
        """Messages not confirmed yet; None while unknown."""
        position = self.confirmed if self.confirmed is not None else self.start
        if position is None or self.newest is None:
            return None
        return messages_between(position, self.newest)
