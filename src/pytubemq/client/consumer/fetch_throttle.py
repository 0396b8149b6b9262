"""The pause before the next fetch of a partition.

The invariants: a pause ends on its own, and at once if the rule that asked for it is gone; a Broker without a long poll
is asked again after a short pause that grows, so that an idle partition costs it at most five requests a second; the
user is notified of a pause, but at most once a minute for each partition; a Broker that accepts confirms and sends what
was confirmed again is asked less and less often.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from pytubemq.client.session.events import Event, Throttled
from pytubemq.core.flow import rule_clock
from pytubemq.core.retry import Backoff, Rng
from pytubemq.core.throttle import Fetched, Rate, Throttle
from pytubemq.errors import Code
from pytubemq.model.limits import WARNING_PERIOD_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.client.options import ConsumerOptions
    from pytubemq.client.session.flow_rules import FlowControl
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Partition
    from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C

logger = logging.getLogger(__name__)

POLL: Final = Backoff(first_s=0.02, most_s=0.2, jitter=0.25)
"""Between fetches at the end of a partition whose Broker has no long poll. (The original waits 400 ms each time.)"""
LIMITED_S: Final = 0.4
"""After a 452 that does not say how long to wait (the original's msgNotFoundWaitPeriodMs)."""
OTHER_S: Final = 0.3
FAILED: Final = Backoff(first_s=OTHER_S, most_s=5.0, jitter=0.25)
"""The pauses after consecutive fetches without a readable response."""
REPEATED: Final = Backoff(first_s=0.1, most_s=5.0, jitter=0.25)
"""The pauses after fetches that brought what was confirmed before."""
_WAITS_S: Final[dict[int, float]] = {Code.FORBIDDEN: 2.0, Code.MOVED: 0.2, Code.SERVICE_UNAVAILABLE: OTHER_S}
"""The original's pauses after refusals."""


class RepeatedStarts:
    """Fetches that do not begin behind the last confirmed batch: its confirm was accepted and had no effect.

    One is no fault: somebody may have moved the group back. So the count goes on until a fetch is further on than all
    that was confirmed, and begins anew then.
    """

    def __init__(self) -> None:
        self.in_row = 0
        """Repeats since a fetch was last further on than all that was confirmed."""
        self._confirmed: int | None = None
        """The start of the last confirmed batch, until a fetch repeats it."""
        self._furthest = -1
        """The largest start of a confirmed batch."""

    def record_confirm(self, start: int | None, end: int | None) -> None:
        """Record that a batch was confirmed up to `end`; None if the Broker does not report it."""
        if start is None or start == end:
            return
        self._confirmed = start
        self._furthest = max(self._furthest, start)

    def record_fetch(self, start: int | None) -> bool:
        """Record the start of a fetch that has messages; return True if these were confirmed before."""
        if start is None:
            return False
        if self._confirmed is not None and start <= self._confirmed:
            self._confirmed = None  # the user may reject what came again: only another confirm without effect counts
            self.in_row += 1
            return True
        if start > self._furthest:
            self.in_row = 0
        return False


class RateLimits:
    """The rate limits of a consumer, for all its partitions together."""

    def __init__(self, options: ConsumerOptions) -> None:
        self._messages = None if options.max_messages_per_s is None else Rate(options.max_messages_per_s)
        self._bytes = None if options.max_bytes_per_s is None else Rate(options.max_bytes_per_s)

    @property
    def counts_bytes(self) -> bool:
        """True if bytes are limited."""
        return self._bytes is not None

    def record_fetched(self, messages: int, size_bytes: int, now_s: float) -> None:
        """Count the messages and bytes of a fetch."""
        if self._messages is not None:
            self._messages.record(messages, now_s)
        if self._bytes is not None:
            self._bytes.record(size_bytes, now_s)

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before the next fetch."""
        waits = [rate.wait_s(now_s) for rate in (self._messages, self._bytes) if rate is not None]
        return max(waits, default=0.0)


class FetchThrottle:
    """The pauses between the fetches of one partition."""

    def __init__(
        self, partition: Partition, options: ConsumerOptions, flow: FlowControl, rates: RateLimits, *, rng: Rng
    ) -> None:
        self._partition = partition
        self._interval_s = options.fetch_interval_s
        self._filtered = partition.topic in options.filters
        self._flow = flow
        self._rates = rates
        self._rng = rng
        self._throttle = Throttle()
        self._not_before_s = 0.0
        self._by_rule: int | None = None
        """The number of the rule change that asked for the pause; None if no rule did."""
        self._empty = 0
        self._idle = 0
        """Consecutive successful responses without progress."""
        self._failures = 0
        """Consecutive fetches without a readable response."""
        self._repeats = RepeatedStarts()
        self._reported_s = self._failure_reported_s = self._repeat_reported_s = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before the next fetch."""
        if self._by_rule is not None and self._by_rule != self._flow.changes:
            self._by_rule, self._not_before_s = None, now_s
        return max(self._not_before_s - now_s, self._rates.wait_s(now_s), 0.0)

    @property
    def counts_bytes(self) -> bool:
        """True if the bytes of a fetch matter."""
        rules = self._flow.rules
        return bool(rules.group.data_limits or rules.cluster.data_limits) or self._rates.counts_bytes

    @property
    def escapes(self) -> bool:
        """True if the Broker shall not apply its own limit, because the group has one that is applied here."""
        rules = self._flow.rules
        return bool(rules.group.data_limits) and rules.escapes(rule_clock(time.time()))

    def record_failure(self, error: TubeError, at: int | None, now_s: float, emit: Callable[[Event], None]) -> None:
        """Pause after a fetch that failed, each time longer; log and emit it, at most once a minute.

        Args:
            at: the offset at which the fetch began, None if not known.
        """
        self._failures += 1
        wait_s = FAILED.delay_s(self._failures, self._rng)
        self._not_before_s, self._by_rule = now_s + wait_s, None
        if now_s - self._failure_reported_s < WARNING_PERIOD_S:
            return
        self._failure_reported_s = now_s
        times = "" if self._failures == 1 else f", {self._failures} times in a row"
        reason = f"the fetch from offset {at} on failed{times}: {error.message}"
        logger.warning("%s: %s; next try in %.3g s", self._partition, reason, wait_s)
        emit(Throttled(reason, wait_s, self._partition))

    def record_idle(self, now_s: float) -> None:
        """Pause after a successful response that has no message for the user and does not move the next fetch."""
        self._idle += 1
        self._not_before_s = max(self._not_before_s, now_s + POLL.delay_s(self._idle, self._rng))

    def record_progress(self) -> None:
        """Record progress: the next fetch is further on."""
        self._idle = 0

    def record_confirm(self, start: int | None, end: int | None) -> None:
        """Record that the Broker accepted the confirm of a batch."""
        self._repeats.record_confirm(start, end)

    def forget_confirms(self) -> None:
        """Forget what was confirmed: the user reads on elsewhere, maybe further back."""
        self._repeats = RepeatedStarts()

    def record_start(self, start: int | None, now_s: float, emit: Callable[[Event], None]) -> bool:
        """Record the start of a fetch that has messages; return True if these were confirmed before.

        Then the next fetch waits, each time longer; it is logged and emitted, at most once a minute.
        """
        if not self._repeats.record_fetch(start):
            return False
        times = self._repeats.in_row
        wait_s = REPEATED.delay_s(times, self._rng)
        self._not_before_s = max(self._not_before_s, now_s + wait_s)
        if now_s - self._repeat_reported_s >= WARNING_PERIOD_S:
            self._repeat_reported_s = now_s
            reason = (
                f"the Broker accepted a confirm and sends its messages again, from offset {start} on "
                f"({times} in a row): the group was moved back, or the Broker loses its confirms"
            )
            logger.warning("%s: %s; the fetch after these waits %.3g s", self._partition, reason, wait_s)
            emit(Throttled(reason, wait_s, self._partition))
        return True

    def record_response(
        self,
        head: GetMessageResponseB2C,
        *,
        messages: int,
        size_bytes: int,
        held: bool,
        now_s: float,
        emit: Callable[[Event], None],
    ) -> None:
        """Set the pause after a response; `held`: the Broker's long poll ended without a message."""
        code = head.err_code
        self._failures = 0
        self._rates.record_fetched(messages, size_bytes, now_s)
        self._empty = self._empty + 1 if code == Code.NOT_FOUND else 0
        default_wait_s = self._default_wait_s(head, held=held)
        wait_s, reason = self._throttle.after(
            Fetched(
                code=code,
                size_bytes=size_bytes,
                lag_bytes=head.curr_data_dlt,
                require_slow=bool(head.require_slow),
                escaped=bool(head.esc_flow_ctrl),
                filtered=self._filtered,
            ),
            self._flow.rules,
            otherwise_s=default_wait_s,
            now_s=now_s,
            hhmm=rule_clock(time.time()),
        )
        self._by_rule = None if reason is None else self._flow.changes
        self._not_before_s = now_s + max(wait_s, self._interval_s)
        if code == Code.SERVER_CONSUME_SPEED_LIMIT:
            reason = head.err_msg or "flow control of the Broker"
        if reason is not None and now_s - self._reported_s >= WARNING_PERIOD_S:
            self._reported_s = now_s
            logger.info("%s: the next fetch waits %.3g s: %s", self._partition, wait_s, reason)
            emit(Throttled(reason, wait_s, self._partition))

    def _default_wait_s(self, head: GetMessageResponseB2C, *, held: bool) -> float:
        code = head.err_code
        if code == Code.SUCCESS:
            return 0.0
        if code == Code.NOT_FOUND:
            return 0.0 if held else POLL.delay_s(self._empty, self._rng)
        if code == Code.SERVER_CONSUME_SPEED_LIMIT:
            wait_ms = head.min_limit_time or 0
            return wait_ms / 1000 if wait_ms > 0 else LIMITED_S
        return _WAITS_S.get(code, OTHER_S)
