"""How far one partition has been fetched, handed out and confirmed.

The invariants: confirmed <= handed out <= fetched; at most one batch is unconfirmed; what is given back is fetched
again from where it began; a batch can only be settled while it is the one that is held (its `ticket` says so).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pytubemq.model.offset import messages_between


class Hold(Enum):
    """What is with this client."""

    NOTHING = "nothing"
    FETCHED = "fetched"
    HANDED_OUT = "handed out"
    SETTLING = "settling"


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

    def registered(self, position: int | None, newest: int | None) -> None:
        """The Broker (again) holds this partition for us, at `position`; whatever it had handed us it will hand again.

        A batch in the hands of the user stays there: it may still be confirmed, by offset.
        """
        if self.hold is Hold.FETCHED:
            self.give_back()
        if position is not None and position >= 0:
            if self.hold is Hold.NOTHING:
                self.start = self.fetched = position
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
        if end is not None and end > (self.confirmed or 0):
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

    def settled(self) -> None:
        """The Broker has taken the confirm."""
        self.hold = Hold.NOTHING
        if self.fetched is not None:
            self.start = self.fetched
            self.confirmed = max(self.fetched, self.confirmed or 0)

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
