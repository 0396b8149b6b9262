"""The outcome of a change for one target.

The codes are the original's: 200 done, 201 done without any difference, 401 not found, 402 already exists, 403
unchanged, 404 something still depends on it, 405 something it needs is missing, 406 wrong state, 407 wrong value, 408
contradictory values, 501 the store failed, 502 the store has no such record, 599 unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DONE: Final = 200
DONE_UNCHANGED: Final = 201
NOT_FOUND: Final = 401
EXISTS: Final = 402
UNCHANGED: Final = 403
DEPENDENT_LEFT: Final = 404
NEED_MISSING: Final = 405
BAD_STATE: Final = 406
BAD_VALUE: Final = 407
CONFLICT: Final = 408
STORE_FAILED: Final = 501
UNKNOWN: Final = 599


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a change for the target with this key: a code, and a text that says why when it was not done."""

    key: tuple[str | int, ...]
    code: int = DONE
    text: str = "Ok!"

    @property
    def ok(self) -> bool:
        """True if the target is now as requested."""
        return self.code in (DONE, DONE_UNCHANGED)
