"""The clock port, which tests replace."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two times: one that never jumps, for waits; one that people read, for records."""

    def now_s(self) -> float:
        """Return monotonic seconds; only differences mean something."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, UTC; may jump."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_s(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000
