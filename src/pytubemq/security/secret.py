"""A secret that no text shows.

The invariant: only `reveal` returns the value; `str`, `repr`, formatting, pickling and comparison do not disclose it.
"""

from __future__ import annotations

import hmac
from typing import Final, NoReturn, final

MASK: Final = "********"


@final
class Secret:
    """A password, a key or a token; `repr` and `str` show a mask."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value. Call it only where the value is used, and never keep the result."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    # Without `__hash__` beside it, which leaves secrets unhashable: the hash of a short one would tell which it is.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled; pass a token of limited life instead")
