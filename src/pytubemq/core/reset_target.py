"""Where a group's position is to go, in the words that people, the HTTP API and the protocol use.

The invariant: a target is one of four kinds and complete: a time has its milliseconds, an offset its number.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple

from pytubemq.errors import BadRequestError, Code
from pytubemq.model.offset import OFFSET_UNIT

MAX_OFFSET: Final = 2**63 - 1
_MAX_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, which is the last that a date can say."""
_AGO: Final = re.compile(r"-(\d{1,9})(s|m|h|d)", re.ASCII)
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER: Final = re.compile(r"(offset|number):(\d{1,18})", re.ASCII)
_FORMS: Final = (
    "it is earliest, latest, a time (2026-01-31T12:00:00Z), a time ago (-10m; s, m, h or d), offset:N or number:N "
    "(N messages from the partition's first one ever)"
)


class ResetTo(Enum):
    """The kinds of places."""

    EARLIEST = "earliest"
    """The first message that is kept."""
    LATEST = "latest"
    """Behind the last message that there is."""
    TIME = "time"
    """The first message that was appended then or later; behind the last one if there is none."""
    OFFSET = "offset"
    """An offset of the partition."""


class ResetTarget(NamedTuple):
    """One place; `offset` with OFFSET, `time_ms` (ms since 1970) with TIME."""

    to: ResetTo
    offset: int | None = None
    time_ms: int | None = None

    @property
    def text(self) -> str:
        """In words, as a history has it."""
        if self.time_ms is not None:
            return f"time {utc(self.time_ms)}"
        return self.to.value if self.offset is None else f"offset {self.offset}"


def parse_reset_target(text: str, *, now_ms: int) -> ResetTarget:
    """A place in words: `earliest`, `latest`, `offset:28`, `number:1`, a time in ISO 8601 (UTC unless it names its
    zone), or one before now: `-10m`.

    Raises:
        BadRequestError: it is none of these.
    """
    word = text.strip()
    if word.lower() in (ResetTo.EARLIEST.value, ResetTo.LATEST.value):
        return ResetTarget(ResetTo(word.lower()))
    if found := _NUMBER.fullmatch(word.lower()):
        offset = int(found[2]) * (OFFSET_UNIT if found[1] == "number" else 1)
        if offset <= MAX_OFFSET:
            return ResetTarget(ResetTo.OFFSET, offset=offset)
    elif found := _AGO.fullmatch(word.lower()):
        return ResetTarget(ResetTo.TIME, time_ms=max(0, now_ms - int(found[1]) * _UNIT_MS[found[2]]))
    else:
        try:
            return time_target(datetime.fromisoformat(word))
        except (ValueError, OverflowError):
            pass
    raise BadRequestError(f"not a place to go to: {text[:80]!r}", hint=_FORMS, code=Code.BAD_REQUEST)


def time_target(time: datetime) -> ResetTarget:
    """The place of a time; one without a zone is in UTC. Times before 1970 count as its first moment."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return ResetTarget(
        ResetTo.TIME, time_ms=max(0, (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000)
    )


def utc(time_ms: int) -> str:
    """`2026-01-31T12:00:00.000Z`, for a time that a date can say."""
    seconds, ms = divmod(min(max(time_ms, 0), _MAX_MS), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
