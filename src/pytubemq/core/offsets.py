"""The progress of one partition: fetched, handed out and confirmed.

The invariants: confirmed <= handed out <= fetched; at most one batch is with the user, and at most one before it has a
confirm under way; what is given back is fetched again from where it began, and so is all behind a confirm that fails; a
batch can only be settled while it is the one that is held (its `ticket` says so).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pytubemq.model.offset import messages_between


class BatchState(Enum):
    """The state of the batch that this client has fetched last."""

    NOTHING = "nothing"
    FETCHED = "fetched"
    HANDED_OUT = "handed out"
    SETTLING = "settling"


class Behind(NamedTuple):
    """The batch before the one that is held, or before the next one: its confirm is under way."""

    ticket: int
    start: int | None
    end: int
    """The end of the batch, with what a filter skipped after it."""


@dataclass(slots=True)
class Watermarks:
    """One partition's progress. Offsets are None until the Broker has sent them."""

    hold: BatchState = BatchState.NOTHING
    ticket: int = 0
    start: int | None = None
    """The start of the fetch that is held, or of the next one."""
    fetched: int | None = None
    confirmed: int | None = None
    newest: int | None = None
    """The partition's end: the offset its next message gets."""
    behind: Behind | None = None
    reported_ms: int = 0
    """The time of the last offsets that the Broker reported, milliseconds since 1970."""

    def record_registration(self, position: int | None, newest: int | None) -> None:
        """Record that the Broker registered us for this partition, at `position`; what it had sent, it will send again.

        A batch in the hands of the user stays there: it may still be confirmed, by offset.
        """
        # Fetched and not handed out: nobody has seen it, so the Broker sending it again is no repeat to the user.
        if self.hold is BatchState.FETCHED:
            self.give_back()
        if position is not None and position >= 0:
            if self.hold is BatchState.NOTHING:
                # what has a confirm under way is confirmed again, so it does not come again
                self.start = self.fetched = position if self.behind is None else max(position, self.behind.end)
            # A registration may arrive after a confirm that the Broker has not stored yet: what is confirmed never
            # goes back by it.
            if self.confirmed is None or position > self.confirmed:
                self.confirmed = position
        self.record_newest(newest)

    def record_fetch(self, start: int | None, end: int | None, newest: int | None) -> int:
        """Record a fetch of messages in [start, end) and return the batch's ticket."""
        self.hold = BatchState.FETCHED
        # A number for each batch: a confirm that comes late, after the batch was given back and fetched anew, must not
        # settle the new one.
        self.ticket += 1
        if start is not None:
            self.start = start
        self.fetched = end
        self.record_newest(newest)
        return self.ticket

    def record_skip(self, end: int | None, newest: int | None) -> None:
        """Record a fetch without messages for us; the Broker has moved on to `end`."""
        # Only forward: an older response must not move the next fetch back.
        if end is not None and end >= 0 and (self.start is None or end > self.start):
            self.start = self.fetched = end
        # The confirm under way covers the skipped messages, too: they lie behind its batch and need no confirm of
        # their own.
        if end is not None and self.behind is not None:
            self.behind = self.behind._replace(end=max(end, self.behind.end))
        # No batch is open before them, and the Broker has confirmed what it skipped on its own.
        elif end is not None and end > (self.confirmed or 0):
            self.confirmed = end
        self.record_newest(newest)

    def record_delivery(self) -> None:
        """Record that the user has the batch."""
        self.hold = BatchState.HANDED_OUT

    def holds(self, ticket: int) -> bool:
        """True if the batch with this ticket may be settled now."""
        return self.hold is BatchState.HANDED_OUT and self.ticket == ticket

    def begin_confirm(self) -> None:
        """Begin the confirm of the batch."""
        self.hold = BatchState.SETTLING

    def awaits_confirm(self, ticket: int) -> bool:
        """True if a confirm of this batch still counts, because it was neither confirmed nor returned."""
        # `behind` first: by now the next batch may be held under another ticket.
        if self.behind is not None and self.behind.ticket == ticket:
            return True
        return self.hold is BatchState.SETTLING and self.ticket == ticket

    def move_ahead(self, ticket: int) -> None:
        """Move on behind a batch whose confirm was sent by offset, without awaiting the response."""
        # Only for the batch that is held: after a reset or a new registration this confirm belongs to no place any
        # more.
        if self.hold is BatchState.SETTLING and self.ticket == ticket and self.fetched is not None:
            # The next fetch may begin while the confirm is on its way: a round trip less for each batch.
            self.behind = Behind(ticket, self.start, self.fetched)
            self.hold = BatchState.NOTHING
            self.start = self.fetched

    def record_confirm(self, ticket: int) -> None:
        """Record that the Broker accepted the confirm of this batch; nothing if its place was left meanwhile."""
        if self.behind is not None and self.behind.ticket == ticket:
            # Never back: a confirm of before a registration may arrive after it, with less.
            self.confirmed = max(self.behind.end, self.confirmed or 0)
            self.behind = None
        elif self.hold is BatchState.SETTLING and self.ticket == ticket:
            self.hold = BatchState.NOTHING
            if self.fetched is not None:
                self.start = self.fetched
                self.confirmed = max(self.fetched, self.confirmed or 0)

    def undo_confirm(self, ticket: int) -> bool:
        """Undo a failed confirm: the batch comes again, and so does all behind it. Return True if there was one."""
        if self.behind is not None and self.behind.ticket == ticket:
            # Confirms are by offset, so one that failed leaves a hole in front of all that was fetched later.
            self.start, self.behind = self.behind.start, None
            self.give_back()
            self.ticket += 1  # whoever has the one behind it holds it no more
            return True
        if self.hold is BatchState.SETTLING and self.ticket == ticket:
            self.give_back()
            return True
        return False

    def leave(self) -> None:
        """Leave this place for another: nothing that was fetched here is held any more."""
        self.behind = None
        self.give_back()

    def give_back(self) -> None:
        """Give back the held batch: it is not confirmed and comes again."""
        self.hold = BatchState.NOTHING
        self.fetched = self.start

    def record_newest(self, newest: int | None) -> None:
        """Record the partition's end."""
        if newest is not None and newest >= 0:
            self.newest = newest

    def lag(self) -> int | None:
        """Return the number of messages not confirmed yet; None while unknown."""
        # Before the first confirm the lag counts from where reading began.
        position = self.confirmed if self.confirmed is not None else self.start
        if position is None or self.newest is None:
            return None
        return messages_between(position, self.newest)
