"""The target of a reset of a group's position, in the words of people, the HTTP API and the protocol.

The invariant: a target is one of four kinds and complete: a time has its milliseconds, an offset its number. A time
that a program or a person gives without a zone is one of their machine's clock, as Python has it; in a text that goes
from one machine to another it is refused, since it would mean another moment there.
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
_ZONE: Final = "give its zone, as in 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+08:00"
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
    """One place; `offset` with OFFSET, `time_ms` (ms since 1970) with TIME.

    `asked` is how it was named where that says more than what came of it: `-10m`, `number:5`.
    """

    to: ResetTo
    offset: int | None = None
    time_ms: int | None = None
    asked: str | None = None

    @property
    def text(self) -> str:
        """In words, as a history has it."""
        text = self.to.value
        if self.time_ms is not None:
            text = f"time {utc(self.time_ms)}"
        elif self.offset is not None:
            text = f"offset {self.offset}"
        return text if self.asked is None else f"{self.asked} ({text})"

    def asked_as(self, asked: str) -> ResetTarget:
        """Return the same target with these words, if they can mean it; the history keeps no others."""
        try:
            # Any time will do for `now`: of times only their kind is compared, as "-10m" names another one each moment.
            meant = parse_reset_target(asked, now_ms=_MAX_MS)
        except BadRequestError:
            return self
        # Where words and target disagree the words are dropped: the target is what was done.
        return self._replace(asked=meant.asked) if (meant.to, meant.offset) == (self.to, self.offset) else self


def parse_reset_target(text: str, *, now_ms: int) -> ResetTarget:
    """Parse a place in words: `earliest`, `latest`, `offset:28`, `number:1`, a time in ISO 8601 with its zone, or one
    before now: `-10m`.

    Raises:
        BadRequestError: it is none of these.
    """
    word = text.strip()
    # No case in words, since people type them.
    if word.lower() in (ResetTo.EARLIEST.value, ResetTo.LATEST.value):
        return ResetTarget(ResetTo(word.lower()))
    if found := _NUMBER.fullmatch(word.lower()):
        # A number counts messages from the partition's first one ever, and those are OFFSET_UNIT apart.
        offset = int(found[2]) * (OFFSET_UNIT if found[1] == "number" else 1)
        # 18 digits times OFFSET_UNIT may be more than an int64 holds.
        if offset <= MAX_OFFSET:
            return ResetTarget(ResetTo.OFFSET, offset=offset, asked=found[0] if found[1] == "number" else None)
    elif found := _AGO.fullmatch(word.lower()):
        # Nine digits of days are more than there is before now: cut off at 1970, which is before every message.
        ago_ms = int(found[1]) * _UNIT_MS[found[2]]
        return ResetTarget(ResetTo.TIME, time_ms=max(0, now_ms - ago_ms), asked=found[0])
    else:
        try:
            time = datetime.fromisoformat(word)
        except ValueError:
            pass
        else:
            if time.tzinfo is None:
                raise BadRequestError(f"not a time: {text[:80]!r}", hint=_ZONE, code=Code.BAD_REQUEST)
            return time_target(time)
    raise BadRequestError(f"not a reset target: {text[:80]!r}", hint=_FORMS, code=Code.BAD_REQUEST)


def time_target(time: datetime) -> ResetTarget:
    """Return the place of a time (this machine's clock without a zone); times before 1970 count as its first moment."""
    # In whole numbers: `timestamp()` is a float and would be a millisecond off for some times.
    since = with_zone(time) - datetime(1970, 1, 1, tzinfo=UTC)
    return ResetTarget(
        ResetTo.TIME, time_ms=max(0, (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000)
    )


def with_zone(time: datetime) -> datetime:
    """Return a time with its zone: this machine's if it names none."""
    if time.tzinfo is not None:
        return time
    try:
        return time.astimezone()
    except (ValueError, OverflowError):  # in the first or last hours that a date can say, where there is no message
        return time.replace(tzinfo=UTC)


def utc(time_ms: int) -> str:
    """Return `2026-01-31T12:00:00.000Z`; a time before 1970 or beyond the year 9999 as the nearest one between."""
    seconds, ms = divmod(min(max(time_ms, 0), _MAX_MS), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
