"""Reports of messages that a consumer skipped because retention had removed them, or because they cannot be read.

The invariants: the log has a line a minute at most for each of these and each partition; each message that retention
removed is counted and reported once if the Broker reports their number. A Java Broker does not: its fetches only begin
behind the expected position. Then the number is an upper bound, and the reason names both retention and a move of the
group, because the two look the same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pytubemq.client.session.events import Skipped
from pytubemq.model.limits import WARNING_PERIOD_S
from pytubemq.model.offset import messages_between

if TYPE_CHECKING:
    from pytubemq.client.consumer.partition_owner import PartitionOwner
    from pytubemq.model.ids import Partition
    from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C

logger = logging.getLogger(__name__)

EXPIRED: Final = "retention removed them before the group had confirmed them"
EXPIRED_OR_MOVED: Final = (
    "the Broker continues behind them: retention removed them before the group had confirmed them, or somebody moved "
    "the group's position; the number is the most they can be"
)


class SkipReport:
    """The messages of one partition that were skipped."""

    def __init__(self, owner: PartitionOwner, partition: Partition) -> None:
        self._owner = owner
        self._partition = partition
        self._unlogged = 0
        self._unlogged_lost = 0
        self._logged_s = self._lost_logged_s = float("-inf")

    def record_expired(self, head: GetMessageResponseB2C, now_s: float) -> None:
        """Record the number of expired messages that a pytubemq Broker reports with a fetch."""
        if head.expired_messages is not None and head.expired_messages > 0:
            self._skip(head.expired_messages, EXPIRED, head.curr_offset, now_s)

    def record_gap(self, expected: int | None, head: GetMessageResponseB2C, now_s: float) -> None:
        """Record a gap before the first offset of a fetch, for a Broker that reports no expired messages."""
        start = head.curr_offset
        if expected is None or start is None or expected < 0:
            return
        if messages := messages_between(expected, start):
            self._skip(messages, EXPIRED_OR_MOVED, start, now_s)

    def record_lost(self, messages: int, reason: str, offset: int | None, now_s: float) -> None:
        """Record messages that cannot be read, the first of them at `offset` if that is known."""
        self._report(messages, reason, offset)
        self._unlogged_lost += messages
        if now_s - self._lost_logged_s >= WARNING_PERIOD_S:
            logger.error("%s: %d messages left out: %s", self._partition, self._unlogged_lost, reason)
            self._unlogged_lost, self._lost_logged_s = 0, now_s

    def _report(self, messages: int, reason: str, offset: int | None) -> None:
        self._owner.count(skipped=messages)
        self._owner.emit(Skipped(self._partition, messages, reason, offset))

    def _skip(self, messages: int, reason: str, offset: int | None, now_s: float) -> None:
        self._report(messages, reason, offset if offset is not None and offset >= 0 else None)
        self._unlogged += messages
        if now_s - self._logged_s >= WARNING_PERIOD_S:
            logger.warning("%s: %d messages skipped: %s", self._partition, self._unlogged, reason)
            self._unlogged, self._logged_s = 0, now_s
