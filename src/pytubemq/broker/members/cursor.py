"""Where one consumer stands in one partition, and where a new one begins: decisions only.

The invariants: `confirmed` moves forward only over messages that were handed out and confirmed, or that the filter
skipped; what the filter skipped behind a confirm that is under way counts with that confirm, and not without;
whatever was handed out and not confirmed is handed out again to the next registration.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pytubemq.model.offset import OFFSET_UNIT, messages_between

NOT_GIVEN: Final = -1
"""`currOffset` of a registration that asks for no particular place."""


class ReadStatus(IntEnum):
    """`readStatus` of a registration: where to begin."""

    FROM_STORED_OR_MIN = 0
    FROM_STORED_OR_MAX = 1
    ALWAYS_MAX = 2


def whole(offset: int) -> int:
    """The offset rounded down to a whole message."""
    return offset - offset % OFFSET_UNIT


def start_offset(*, stored: int | None, read_status: int, asked: int, min_offset: int, max_offset: int) -> int:
    """Where a registration begins.

    Args:
        stored: what the group has confirmed here, None if nothing yet.
        asked: the request's `currOffset`; below 0 means not given. It wins over `stored`, `ALWAYS_MAX` wins over it.
    """
    if read_status == ReadStatus.ALWAYS_MAX:
        return max_offset
    if asked >= 0:
        return min(max(whole(asked), min_offset), max_offset)
    if stored is not None:
        return stored
    return min_offset if read_status == ReadStatus.FROM_STORED_OR_MIN else max_offset


@dataclass(slots=True)
class Cursor:
    """`handed_out` is the offset after the last message given to the consumer, `confirmed` what it has confirmed."""

    confirmed: int
    handed_out: int
    moved: bool = False
    """Somebody else put it here while its consumer had messages from elsewhere: a confirm of those counts no more."""
    unsettled: int | None = None
    """The newest confirm that is not durable yet."""
    passed: int | None = None
    """End of the messages that the filter has skipped behind that one."""
    expired: int = 0
    """Messages that retention removed before they were confirmed, not yet reported to the consumer."""

    @classmethod
    def at(cls, offset: int, *, moved: bool = False) -> Cursor:
        """A fresh registration, or one that was moved: nothing handed out yet."""
        return cls(offset, offset, moved)

    def request(self, *, manual: bool) -> int:
        """Where the next fetch reads: behind what was handed out (manual commit), else behind what is confirmed."""
        return self.handed_out if manual else self.confirmed

    def commit(self, *, consumed: bool) -> bool:
        """Confirm what was handed out, or take it back. Returns whether `confirmed` moved."""
        if not consumed or self.handed_out == self.confirmed:
            self.handed_out = self.confirmed
            return False
        self.confirmed = self.handed_out
        return True

    def commit_up_to(self, offset: int) -> bool:
        """Confirm all below `offset`, whatever was handed out behind it; never moves back.

        Once the cursor was moved, a confirm of what was not handed out since is about the place it was moved away from.
        """
        offset = whole(offset)
        if offset <= self.confirmed or (self.moved and offset > self.handed_out):
            return False
        self.confirmed = offset
        self.handed_out = max(self.handed_out, offset)
        return True

    def settling(self) -> int:
        """A confirm is on its way to the disk; returns the offset that it is to make durable."""
        self.unsettled, self.passed = self.confirmed, None
        return self.confirmed

    def settled(self, offset: int) -> int | None:
        """A confirm up to `offset` is durable. Returns what is to be made durable now: what the filter skipped."""
        if self.unsettled != offset:
            return None
        passed, self.unsettled, self.passed = self.passed, None, None
        return passed if passed == self.confirmed else None

    def take_back(self, refused: int, *, to: int | None) -> None:
        """A confirm up to `refused` did not become durable: back to the newest position that stands, if there is one.

        What was handed out behind it stays handed out. A confirm made since then has its own outcome and is left alone.
        """
        newest = refused
        if self.unsettled == refused:
            newest, self.unsettled, self.passed = self.passed or refused, None, None
        if self.confirmed == newest and to is not None and to < newest:
            self.confirmed = to

    def align(self, *, min_offset: int, max_offset: int, manual: bool) -> bool:
        """Bring the cursor into what the partition holds; returns whether `confirmed` moved.

        Behind the end (the log was replaced): to the end, in manual mode only for reading. Below the start (the
        messages are gone by age): to the start.
        """
        request = self.request(manual=manual)
        if request < min_offset:
            self.expired += messages_between(request, min_offset)
            self.confirmed = self.handed_out = min_offset
            return True
        if request > max_offset:
            self.handed_out = max_offset
            if not manual:
                self.confirmed = max_offset
                return True
        return False

    def take_expired(self) -> int | None:
        """Return how many expired messages the next response reports; None if none."""
        expired, self.expired = self.expired, 0
        return expired or None

    def book(self, next_offset: int, *, found: bool, manual: bool) -> bool:
        """Record a read from where `request` says to `next_offset`; returns whether `confirmed` is to be made durable.

        A read that found nothing for the consumer's filter has nothing that could be confirmed later, so in automatic
        mode its range is confirmed at once; behind a confirm that is under way, when that is durable.
        """
        self.handed_out = next_offset
        if found or manual or next_offset == self.confirmed:
            return False
        self.confirmed = next_offset
        if self.unsettled is None:
            return True
        self.passed = next_offset
        return False
