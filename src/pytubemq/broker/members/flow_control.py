"""Throttling of reads by the cluster's flow-control rules, and the recent reads of each registration.

The invariants: decisions only, times and positions come in; a registration has at most a twelfth of its limit in five
seconds and the whole in a minute, with one message beyond it; where no rule applies, nothing is counted or refused; new
rules apply from the next fetch on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.core.flow import NO_FLOW_RULES, FlowRules
from pytubemq.model.ids import UNDEFINED

if TYPE_CHECKING:
    from pytubemq.core.flow import DataLimit

LIMIT_S: Final = 60.0
"""The period of a rule's limit, after which another rule may apply (the original's)."""
WINDOW_S: Final = 5.0
_WINDOWS: Final = int(LIMIT_S / WINDOW_S)
DEFAULT_PRIORITY_ID: Final = 300
"""The priority that the original assumes where neither consumer nor Master named one."""
FEW_LEFT_MESSAGES: Final = 240_000
"""A filtered fetch that leaves fewer messages than this is slowed down (10 x 3 x 8,000, the original's)."""


@dataclass(slots=True)
class FlowControl:
    """The Master's flow-control rules, for the whole Broker."""

    rules: FlowRules = NO_FLOW_RULES
    priority_id: int = UNDEFINED
    refusals: int = 0
    """Fetches refused with 452 since the start."""

    @property
    def limits(self) -> bool:
        """True if any rule limits reading."""
        return bool(self.rules.data_limits)

    def priority(self, consumer_id: int) -> int:
        """Return the priority id that applies to a consumer: its own, the Master's, or the original's default."""
        return next((wanted for wanted in (consumer_id, self.priority_id) if wanted > 0), DEFAULT_PRIORITY_ID)


@dataclass(slots=True)
class Meter:
    """The recent reads of one registration, against the limit that applies to it."""

    read_to: int | None = None
    """The position in the partition's bytes up to which it has read; None before its first fetch, which is free."""
    limit: DataLimit | None = None
    _rules: FlowRules = NO_FLOW_RULES
    _minute_ends_s: float = 0.0
    _window_ends_s: float = 0.0
    _minute_bytes: int = 0
    _window_bytes: int = 0

    def pause_ms(self, rules: FlowRules, *, end_position: int, now_s: float, hhmm: int) -> int | None:
        """Return the time to wait before the next read in ms; None = it may read now.

        Args:
                end_position: the current end of the partition's bytes.
            hhmm: the rules' time of day (`core.flow.rule_clock`).
        """
        # How far behind it is shows only once it has read something.
        if self.read_to is None:
            return None
        # By identity: new rules are a new object, so nothing has to be compared with every fetch.
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
        """Return the most bytes of one read: the requested ones, or the limit of a window."""
        # At least a byte, or a limit below a message would stop the reader for good.
        return wanted if self.limit is None else max(1, min(wanted, self._window_limit(self.limit)))

    def record_read(self, size_bytes: int, *, read_to: int) -> None:
        """Record the size of a fetch's response."""
        # The response is counted after it was read, so it may exceed the limit by one message.
        self.read_to = read_to
        self._minute_bytes += size_bytes
        self._window_bytes += size_bytes

    @property
    def given_bytes(self) -> tuple[int, int]:
        """Return the bytes read in the last window and in the last minute."""
        return self._window_bytes, self._minute_bytes

    @property
    def window_limit_bytes(self) -> int | None:
        """Return the most bytes in a window; None without a limit."""
        return None if self.limit is None else self._window_limit(self.limit)

    @staticmethod
    def _window_limit(limit: DataLimit) -> int:
        return limit.limit_bytes // _WINDOWS
