"""The name that was meant by one that does not exist, for a hint that asks "did you mean …?"."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def suggest(name: str, known: Iterable[str], *, likeness: float = 0.6, ignore_case: bool = True) -> str | None:
    """Return the known name that a misspelt one resembles most, None if it resembles none.

    `likeness` is the least that counts, from 0 for any name to 1 for the same one; case counts only if asked.
    """
    fold = str.lower if ignore_case else str
    by_folded = {fold(each): each for each in known}
    close = difflib.get_close_matches(fold(name), by_folded, 1, likeness)
    return by_folded[close[0]] if close else None
