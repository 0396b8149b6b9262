"""Numbers in the form that people read.

The invariant: one is singular, anything else plural, and a size is never rounded to nothing.
"""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP: Final = 1024
_FEW: Final = 10
"""Numbers below this have one decimal digit."""


def count_of(number: int, noun: str) -> str:
    """Return `1 partition`, `4 partitions`, `1,405 messages`; only for nouns whose plural ends with an added s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Return bytes in the unit in which they are at least one and less than 1,024: `330 MiB`, `1.5 GiB`, `12 bytes`."""
    if number < _STEP:
        return count_of(number, "byte")
    value, unit = float(number), 0
    while value >= _STEP - 0.5 and unit < len(_UNITS) - 1:  # what would be shown as 1,024 is one of the next
        value /= _STEP
        unit += 1
    return f"{value:.1f} {_UNITS[unit]}" if value < _FEW - 0.05 else f"{value:,.0f} {_UNITS[unit]}"
