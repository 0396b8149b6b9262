"""When a held partition may be fetched from again.

The invariants: a pause ends by itself, and at once when the rule that asked for it is gone; a Broker that cannot hold a
fetch is asked again after a short pause that grows, so that an idle partition costs it at most five requests a second;
whoever is made to wait hears of it, but at most once a minute for each partition.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from pytubemq.client.events import Event, Throttled
from pytubemq.core.flow import rule_clock
from pytubemq.core.rate import Rate
from pytubemq.core.retry import Backoff, Rng
from pytubemq.core.throttle import Fetched, Throttle
from pytubemq.errors import Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.client.flow import Flow
    from pytubemq.client.options import ConsumerOptions
    from pytubemq.model.ids import Partition
    from pytubemq.wire.messages.broker import GetMessageResponseB2C

logger = logging.getLogger(__name__)

POLL: Final = Backoff(first_s=0.02, most_s=0.2, jitter=0.25)
"""Between fetches from the end of a partition whose Broker cannot hold them. (The original waits 400 ms each time.)"""
LIMITED_S: Final = 0.4
"""After a 452 that does not say how long to wait (the original's msgNotFoundWaitPeriodMs)."""
TELL_AGAIN_S: Final = 60.0
OTHER_S: Final = 0.3
_WAITS_S: Final[dict[int, float]] = {Code.FORBIDDEN: 2.0, Code.MOVED: 0.2, Code.SERVICE_UNAVAILABLE: OTHER_S}
"""The original's pauses after refusals."""


class Rates:
    """What a consumer takes per second, of all its partitions together."""

    def __init__(self, options: ConsumerOptions) -> None:
        self._messages = None if options.max_messages_per_s is None else Rate(options.max_messages_per_s)
        self._bytes = None if options.max_bytes_per_s is None else Rate(options.max_bytes_per_s)

    @property
    def counts_bytes(self) -> bool:
        """Whether bytes are limited."""
        return self._bytes is not None

    def took(self, messages: int, size_bytes: int, now_s: float) -> None:
        """A fetch has brought so much."""
        if self._messages is not None:
            self._messages.took(messages, now_s)
        if self._bytes is not None:
            self._bytes.took(size_bytes, now_s)

    def wait_s(self, now_s: float) -> float:
        """How long no fetch may leave."""
        waits = [rate.wait_s(now_s) for rate in (self._messages, self._bytes) if rate is not None]
        return max(waits, default=0.0)


class Pace:
    """One partition's pauses."""

    def __init__(self, partition: Partition, options: ConsumerOptions, flow: Flow, rates: Rates, *, rng: Rng) -> None:
        self._partition = partition
        self._interval_s = options.fetch_interval_s
        self._filtered = partition.topic in options.filters
        self._flow = flow
        self._rates = rates
        self._rng = rng
        self._throttle = Throttle()
        self._not_before_s = 0.0
        self._by_rule: int | None = None
        """Which change of the rules the pause is due to."""
        self._empty = 0
        self._told_s = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """How long to wait before the next fetch."""
        if self._by_rule is not None and self._by_rule != self._flow.changes:
            self._by_rule, self._not_before_s = None, now_s
        return max(self._not_before_s - now_s, self._rates.wait_s(now_s), 0.0)

    @property
    def counts_bytes(self) -> bool:
        """Whether it matters how much a fetch brings."""
        rules = self._flow.rules
        return bool(rules.group.data_limits or rules.cluster.data_limits) or self._rates.counts_bytes

    @property
    def escapes(self) -> bool:
        """Whether the Broker shall not keep its own limit, because the group has one that is kept here."""
        rules = self._flow.rules
        return bool(rules.group.data_limits) and rules.escapes(rule_clock(time.time()))

    def failed(self, now_s: float) -> None:
        """A fetch ended without an answer that says anything."""
        self._not_before_s, self._by_rule = now_s + OTHER_S, None

    def answered(
        self,
        head: GetMessageResponseB2C,
        *,
        messages: int,
        size_bytes: int,
        held: bool,
        now_s: float,
        emit: Callable[[Event], None],
    ) -> None:
        """A fetch was answered; `held`: the Broker has kept it waiting for as long as it was allowed to."""
        code = head.err_code
        self._rates.took(messages, size_bytes, now_s)
        self._empty = self._empty + 1 if code == Code.NOT_FOUND else 0
        otherwise_s = self._otherwise_s(head, held=held)
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
            otherwise_s=otherwise_s,
            now_s=now_s,
            hhmm=rule_clock(time.time()),
        )
        self._by_rule = None if reason is None else self._flow.changes
        self._not_before_s = now_s + max(wait_s, self._interval_s)
        if code == Code.SERVER_CONSUME_SPEED_LIMIT:
            reason = head.err_msg or "flow control of the Broker"
        if reason is not None and now_s - self._told_s >= TELL_AGAIN_S:
            self._told_s = now_s
            logger.info("%s: the next fetch waits %.3g s: %s", self._partition, wait_s, reason)
            emit(Throttled(reason, wait_s, self._partition))

    def _otherwise_s(self, head: GetMessageResponseB2C, *, held: bool) -> float:
        code = head.err_code
        if code == Code.SUCCESS:
            return 0.0
        if code == Code.NOT_FOUND:
            return 0.0 if held else POLL.delay_s(self._empty, self._rng)
        if code == Code.SERVER_CONSUME_SPEED_LIMIT:
            told_ms = head.min_limit_time or 0
            return told_ms / 1000 if told_ms > 0 else LIMITED_S
        return _WAITS_S.get(code, OTHER_S)
