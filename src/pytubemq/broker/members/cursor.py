"""One consumer's position in one partition, and the start of a new one: decisions only.

The invariants: `confirmed` moves forward only over messages that were sent and confirmed, or that the filter skipped;
messages that the filter skipped behind a confirm in flight count with that confirm, and not without it; messages that
were sent and not confirmed are sent again to the next registration.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pytubemq.model.offset import OFFSET_UNIT, messages_between

NOT_GIVEN: Final = -1
"""The `currOffset` of a registration that requests no particular offset."""


class ReadStatus(IntEnum):
    """The `readStatus` of a registration: the offset to begin at."""

    FROM_STORED_OR_MIN = 0
    FROM_STORED_OR_MAX = 1
    ALWAYS_MAX = 2


def whole(offset: int) -> int:
    """Return the offset rounded down to a whole message."""
    return offset - offset % OFFSET_UNIT


def start_offset(*, stored: int | None, read_status: int, asked: int, min_offset: int, max_offset: int) -> int:
    """Return the offset at which a registration begins.

    Args:
        stored: the group's confirmed offset, None if nothing yet.
        asked: the request's `currOffset`; below 0 means not given. It wins over `stored`, `ALWAYS_MAX` wins over it.
    """
    # Wins over an offset that the request brings: its consumer wants new messages only.
    if read_status == ReadStatus.ALWAYS_MAX:
        return max_offset
    if asked >= 0:
        # A client may bring any number, and reads begin at whole messages within the partition.
        return min(max(whole(asked), min_offset), max_offset)
    # Not moved into the range here: `align` does that with the first fetch, and counts what has expired.
    if stored is not None:
        return stored
    return min_offset if read_status == ReadStatus.FROM_STORED_OR_MIN else max_offset


@dataclass(slots=True)
class Cursor:
    """A consumer's position: `handed_out` is the offset after the last message sent to it."""

    confirmed: int
    handed_out: int
    moved: bool = False
    """True if it was moved while its consumer had messages from before: a confirm of those no longer counts."""
    unsettled: int | None = None
    """The newest confirm that is not durable yet."""
    passed: int | None = None
    """The end of the messages that the filter has skipped behind that one."""
    expired: int = 0
    """Messages that retention removed before they were confirmed, not yet reported to the consumer."""

    @classmethod
    def at(cls, offset: int, *, moved: bool = False) -> Cursor:
        """Return the cursor of a new registration, or of one that was moved: nothing was sent yet."""
        return cls(offset, offset, moved)

    def request(self, *, manual: bool) -> int:
        """Return the next fetch's offset: after the sent messages (manual commit), else after the confirmed ones."""
        return self.handed_out if manual else self.confirmed

    def commit(self, *, consumed: bool) -> bool:
        """Confirm the sent messages, or take them back. Return True if `confirmed` moved."""
        # Taken back, they are sent again with the next fetch.
        if not consumed or self.handed_out == self.confirmed:
            self.handed_out = self.confirmed
            return False
        self.confirmed = self.handed_out
        return True

    def commit_up_to(self, offset: int) -> bool:
        """Confirm all messages below `offset`, whatever was sent behind it; never moves back.

        After a move, a confirm of messages that were sent before it is ignored.
        """
        offset = whole(offset)
        # After a move `handed_out` is what was sent since, and a larger offset can only be from before.
        if offset <= self.confirmed or (self.moved and offset > self.handed_out):
            return False
        self.confirmed = offset
        # Else the next fetch of a manual consumer would send what it has just confirmed.
        self.handed_out = max(self.handed_out, offset)
        return True

    def begin_confirm(self) -> int:
        """Record that a confirm is being written; return the offset that it is to make durable."""
        # What the filter skips from here on counts with this confirm only.
        self.unsettled, self.passed = self.confirmed, None
        return self.confirmed

    def finish_confirm(self, offset: int) -> int | None:
        """Record that a confirm up to `offset` is durable; return the end of skipped messages to make durable next."""
        # A newer confirm is being written, which covers this one and what was skipped behind it.
        if self.unsettled != offset:
            return None
        passed, self.unsettled, self.passed = self.passed, None, None
        # Skipped messages count only while nothing else has moved the position.
        return passed if passed == self.confirmed else None

    def take_back(self, refused: int, *, to: int | None) -> None:
        """Undo a refused confirm up to `refused`: return to the newest position that is still valid, if there is one.

        Messages sent behind it stay sent. A confirm made since then has its own outcome and is not affected.
        """
        newest = refused
        if self.unsettled == refused:
            newest, self.unsettled, self.passed = self.passed or refused, None, None
        # Never forward: a reset or a newer confirm may have moved it meanwhile.
        if self.confirmed == newest and to is not None and to < newest:
            self.confirmed = to

    def align(self, *, min_offset: int, max_offset: int, manual: bool) -> bool:
        """Move the cursor into the partition's range; return True if `confirmed` moved.

        Behind the end (the log was replaced): to the end, in manual mode only for reading. Below the start (the
        messages have expired): to the start.
        """
        request = self.request(manual=manual)
        if request < min_offset:
            # Counted until the next response can report them, as this fetch may still be refused.
            self.expired += messages_between(request, min_offset)
            self.confirmed = self.handed_out = min_offset
            return True
        if request > max_offset:
            self.handed_out = max_offset
            # In manual mode the confirmed offset does not go back on its own.
            if not manual:
                self.confirmed = max_offset
                return True
        return False

    def take_expired(self) -> int | None:
        """Return how many expired messages the next response reports; None if none."""
        expired, self.expired = self.expired, 0
        return expired or None

    def book(self, next_offset: int, *, found: bool, manual: bool) -> bool:
        """Record a read from `request` to `next_offset`; return True if `confirmed` is to be made durable.

        A read without a message for the consumer's filter has nothing to confirm later, so in automatic
        mode its range is confirmed at once; behind a confirm in flight, when that is durable.
        """
        self.handed_out = next_offset
        # Where something was found the consumer confirms it together with what was skipped.
        if found or manual or next_offset == self.confirmed:
            return False
        self.confirmed = next_offset
        if self.unsettled is None:
            return True
        # Written now, it would make the confirm before it durable even if that one is refused.
        self.passed = next_offset
        return False
