"""What became of one target of a change.

The codes are the original's: 200 done, 201 done and nothing was different, 401 not found, 402 there already, 403 not
changed, 404 something that depends on it is left, 405 something it needs is missing, 406 not in this state, 407 not
with this value, 408 values that contradict each other, 501 the store failed, 502 the store has no such record, 599
unknown.
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
        """Whether the target is now as was asked."""
        return self.code in (DONE, DONE_UNCHANGED)
