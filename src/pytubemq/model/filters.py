"""Filter codes: the 32-bit hash by which a Broker chooses messages for a filtering consumer."""

from __future__ import annotations

from typing import Final

NO_FILTER_CODE: Final = -1
"""The code of a message without a type."""


def filter_code(item: str) -> int:
    """Java's `String.hashCode` of the trimmed item: s = 31 * s + UTF-16 unit, wrapped to int32.

    `filter_code("abc") == 96354`. Different items may share a code, so a client filters again by text.
    """
    units = item.strip().encode("utf-16-be")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value
