"""The delay before a partition is fetched again: the flow-control rules as its reader applies them.

There are the rules of the group and those of the cluster; where the group has a rule of a kind, it decides. Bytes are
counted as payload that came, in windows of a minute and of five seconds, a twelfth of the minute's share each.

The invariants: nothing is counted twice or into a window that is over; rules that change act on the very next fetch,
not when the minute ends; without rules no fetch is ever delayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pytubemq.core.flow import NO_FLOW_RULES, DataLimit, FlowRules, parse_rules
from pytubemq.errors import Code
from pytubemq.model.ids import UNDEFINED

MINUTE_S: Final = 60.0
SLICE_S: Final = 5.0
# Five seconds as in the original, so that a minute's share does not pass in one burst at its start.
SLICES: Final = 12


@dataclass(frozen=True, slots=True)
class AnnouncedRules:
    """Rules as the Master sent them, under the number by which it knows whether we have them."""

    check_id: int = UNDEFINED
    rules: FlowRules = NO_FLOW_RULES

    def after_response(self, check_id: int | None, text: str | None) -> AnnouncedRules:
        """Return the rules that hold after a response with these fields.

        Without a number, or with the one that is known, nothing changes; -2 or another number without text ends the
        rules. (Java goes on with them.)

        Raises:
            FormatError: the text is no rules.
        """
        if check_id is None or check_id == self.check_id:
            return self
        # The Master sends one blank and -2 once rules are switched off. Java takes neither, and keeps its old rules for
        # good.
        if check_id < 0 or text is None or not text.strip():
            return AnnouncedRules(check_id)
        return AnnouncedRules(check_id, parse_rules(text))


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules that a group reads by: its own, and the cluster's for everybody."""

    group: FlowRules = NO_FLOW_RULES
    cluster: FlowRules = NO_FLOW_RULES

    def escapes(self, hhmm: int) -> bool:
        """True if the group has a limit of its own now, so that the Broker need not apply the cluster's."""
        # Whatever the lag: the Broker cannot know the group's rule, so it steps back as long as one is in force.
        return any(rule.start_hhmm <= hhmm <= rule.end_hhmm for rule in self.group.data_limits)


NO_RULES: Final = RulesInForce()


class Fetched(NamedTuple):
    """The part of a fetch's response that the rules need."""

    code: int
    size_bytes: int
    """Payload that came."""
    lag_bytes: int | None
    """The bytes left to read; None or negative when the Broker did not report it."""
    require_slow: bool
    """True if the Broker reports that little is left of what the filter selects."""
    escaped: bool
    """True if the Broker reports that the limits are lifted."""
    filtered: bool


class Pause(NamedTuple):
    """The wait before the next fetch; `reason` is None when no rule asks for it."""

    wait_s: float
    reason: str | None


class Throttle:
    """One partition's counters."""

    __slots__ = ("_empty", "_lag_bytes", "_limit", "_minute", "_minute_end_s", "_rules", "_slice", "_slice_end_s")

    def __init__(self) -> None:
        self._rules: RulesInForce | None = None
        self._limit: DataLimit | None = None
        self._lag_bytes: int | None = None
        self._minute = self._slice = 0
        # In the past, so that the first fetch begins both windows.
        self._minute_end_s = self._slice_end_s = float("-inf")
        self._empty = 0

    def after(self, fetched: Fetched, rules: RulesInForce, *, otherwise_s: float, now_s: float, hhmm: int) -> Pause:
        """Return the pause after a fetch; `otherwise_s` is the one without rules, `hhmm` the rules' time of day."""
        if fetched.lag_bytes is not None and fetched.lag_bytes >= 0:
            self._lag_bytes = fetched.lag_bytes
        # Before the fetch is counted: what came after the end of a window belongs to the next one.
        self._roll(rules, now_s, hhmm)
        self._minute += fetched.size_bytes
        self._slice += fetched.size_bytes
        # Other codes are no reads, and have pauses of their own (the original's order of checks, as all below).
        if fetched.code not in (Code.SUCCESS, Code.NOT_FOUND):
            return Pause(otherwise_s, None)
        self._empty = self._empty + 1 if fetched.code == Code.NOT_FOUND and not fetched.size_bytes else 0
        if self._empty:
            return self._after_nothing(rules, otherwise_s)
        # The original's Broker never sets it; its clients would not wait either.
        if fetched.escaped:
            return Pause(0.0, None)
        limit = self._limit
        if limit is not None and (self._minute >= limit.limit_bytes or self._slice >= limit.limit_bytes / SLICES):
            return Pause(
                # The longer of the two, as in the original; only a rule of type 1 replaces the usual pause.
                max(limit.freq_ms / 1000, otherwise_s),
                f"{limit.limit_mib} MiB a minute while more than {limit.lag_mib} MiB are left to read",
            )
        return self._after_something(fetched, rules, otherwise_s)

    def _roll(self, rules: RulesInForce, now_s: float, hhmm: int) -> None:
        over = now_s >= self._slice_end_s
        if now_s >= self._minute_end_s:
            self._minute = self._slice = 0
            self._minute_end_s, self._slice_end_s = now_s + MINUTE_S, now_s + SLICE_S
        elif over:
            self._slice = 0
            self._slice_end_s = now_s + SLICE_S
        # The limit is chosen once for each slice, and at once when the rules change.
        if over or rules is not self._rules:
            self._rules = rules
            lag = self._lag_bytes
            self._limit = None
            # Nothing is limited before the Broker has reported a lag.
            if lag is not None:
                # A group's own rule replaces the cluster's, also where it allows more.
                self._limit = rules.group.data_limit(lag, hhmm) or rules.cluster.data_limit(lag, hhmm)

    def _after_nothing(self, rules: RulesInForce, otherwise_s: float) -> Pause:
        # All or nothing: a group with rules of this type is not subject to the cluster's where its own say nothing.
        decides = rules.group if rules.group.empty_reads else rules.cluster
        wait_ms = decides.empty_read_pause_ms(self._empty, -1)
        # Not 0, which is a rule's pause of nothing.
        if wait_ms < 0:
            return Pause(otherwise_s, None)
        return Pause(wait_ms / 1000, "a pause after fetches that brought nothing")

    def _after_something(self, fetched: Fetched, rules: RulesInForce, otherwise_s: float) -> Pause:
        low = rules.group.low_fetch or rules.cluster.low_fetch
        if low is None:
            return Pause(otherwise_s, None)
        if not fetched.filtered:
            wait_ms = low.norm_ms
        else:
            wait_ms = low.min_data_filter_ms if fetched.require_slow else low.filter_ms
        # The usual pause is as long, so no rule is named as the reason.
        if wait_ms <= otherwise_s * 1000:
            return Pause(otherwise_s, None)
        return Pause(wait_ms / 1000, "a pause after every fetch")


class Rate:
    """An amount per second, kept on average: a bucket with the budget of one second.

    Over any time t no more than `per_s * (t + 1)` is taken, plus what came last: an amount is only known when it has
    come, so what was too much is waited for afterwards.
    """

    __slots__ = ("_at_s", "_left", "per_s")

    def __init__(self, per_s: float) -> None:
        self.per_s = per_s
        self._left = per_s
        self._at_s: float | None = None

    def record(self, amount: float, now_s: float) -> None:
        """Record an amount that has come."""
        self._fill(now_s)
        # It may fall below 0: a fetch's size is known only when it has come, so what was too much is made up for later.
        self._left -= amount

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before more may be requested."""
        self._fill(now_s)
        return max(0.0, -self._left / self.per_s)

    def _fill(self, now_s: float) -> None:
        if self._at_s is not None and now_s > self._at_s:
            # Full at one second's amount, so that a pause saves up no larger burst.
            self._left = min(self.per_s, self._left + (now_s - self._at_s) * self.per_s)
        # Never back, or the same time would fill the bucket twice.
        self._at_s = now_s if self._at_s is None else max(now_s, self._at_s)
