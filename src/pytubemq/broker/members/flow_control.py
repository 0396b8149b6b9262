"""How fast partitions are read here: the cluster's flow-control rules, and what each registration has had of late.

The invariants: decisions only, times and positions come in; a registration has at most a twelfth of its limit in five
seconds and the whole in a minute, with one message beyond it; where no rule fits, nothing is counted or refused; new
rules hold from the next fetch on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.core.flow import NO_FLOW_RULES, FlowRules
from pytubemq.model.ids import UNDEFINED

if TYPE_CHECKING:
    from pytubemq.core.flow import DataLimit

LIMIT_S: Final = 60.0
"""The time for which a rule's limit is meant, and after which another rule may fit (the original's)."""
WINDOW_S: Final = 5.0
_WINDOWS: Final = int(LIMIT_S / WINDOW_S)
DEFAULT_PRIORITY_ID: Final = 300
"""What the original assumes where neither consumer nor Master named a priority."""
FEW_LEFT_MESSAGES: Final = 240_000
"""A filtered fetch that leaves less than this to read is told to slow down (10 x 3 x 8,000, the original's)."""


@dataclass(slots=True)
class FlowControl:
    """What the Master said of flow control, for the whole Broker."""

    rules: FlowRules = NO_FLOW_RULES
    priority_id: int = UNDEFINED
    refusals: int = 0
    """Fetches refused with 452 since the start."""

    @property
    def limits(self) -> bool:
        """Whether any rule limits reading at all."""
        return bool(self.rules.data_limits)

    def priority(self, consumer_id: int) -> int:
        """The priority id that counts for a consumer: its own, the Master's, or the original's default."""
        return next((wanted for wanted in (consumer_id, self.priority_id) if wanted > 0), DEFAULT_PRIORITY_ID)


@dataclass(slots=True)
class Meter:
    """What one registration was given, against the limit that fits it."""

    read_to: int | None = None
    """The position in the partition's bytes up to which it has read; None before its first fetch, which is free."""
    limit: DataLimit | None = None
    _rules: FlowRules = NO_FLOW_RULES
    _minute_ends_s: float = 0.0
    _window_ends_s: float = 0.0
    _minute_bytes: int = 0
    _window_bytes: int = 0

    def pause_ms(self, rules: FlowRules, *, end_position: int, now_s: float, hhmm: int) -> int | None:
        """How long the consumer is to wait before it gets more; None = it may read now.

        Args:
            end_position: where the partition's bytes end now.
            hhmm: the rules' time of day (`core.flow.rule_clock`).
        """
        if self.read_to is None:
            return None
        if rules is not self._rules or now_s >= self._minute_ends_s:
            self._rules = rules
            self.limit = rules.data_limit(end_position - self.read_to, hhmm)
            self._minute_bytes = self._window_bytes = 0
            self._minute_ends_s, self._window_ends_s = now_s + LIMIT_S, now_s + WINDOW_S
        elif now_s >= self._window_ends_s:
            self._window_bytes = 0
            self._window_ends_s = now_s + WINDOW_S
        limit = self.limit
        if limit is None or (self._minute_bytes < limit.limit_bytes and self._window_bytes < self._window_limit(limit)):
            return None
        return limit.freq_ms

    def most_bytes(self, wanted: int) -> int:
        """What one read may bring: what was asked for, or what the limit has for a window."""
        return wanted if self.limit is None else max(1, min(wanted, self._window_limit(self.limit)))

    def record_read(self, size_bytes: int, *, read_to: int) -> None:
        """Record the size of a fetch's response."""
        self.read_to = read_to
        self._minute_bytes += size_bytes
        self._window_bytes += size_bytes

    @property
    def given_bytes(self) -> tuple[int, int]:
        """What it had in the window and in the minute that were counted last."""
        return self._window_bytes, self._minute_bytes

    @property
    def window_limit_bytes(self) -> int | None:
        """What it may have in a window; None without a limit."""
        return None if self.limit is None else self._window_limit(self.limit)

    @staticmethod
    def _window_limit(limit: DataLimit) -> int:
        return limit.limit_bytes // _WINDOWS
