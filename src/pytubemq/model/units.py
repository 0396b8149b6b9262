"""Numbers with units, as pipeline files and options write them: `64MiB`, `10s`, `200_000`, `1%`."""

from __future__ import annotations

import math
import re
from typing import Final

from pytubemq.model.limits import KIB, MIB

_COUNT: Final = re.compile(r"([0-9][0-9_]{0,24})")
_SIZE: Final = re.compile(r"([0-9][0-9_]{0,24}(?:\.[0-9]{1,6})?) ?(B|KiB|MiB|GiB|KB|MB|GB)?", re.IGNORECASE)
_TIME: Final = re.compile(r"([0-9][0-9_]{0,18}(?:\.[0-9]{1,9})?) ?(ms|s|m|min|h|d)?")
_RATIO: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?(%)?")

_SIZES: Final = {
    "b": 1, "kib": KIB, "mib": MIB, "gib": 1024 * MIB, "kb": 1000, "mb": 1_000_000, "gb": 1_000_000_000,
}  # fmt: skip
_TIMES: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MOST: Final = 2**63 - 1


def count(text: str) -> int | None:
    """Return a whole number of at least 1; None if it is malformed."""
    found = _COUNT.fullmatch(text.strip())
    number = int(found[1].replace("_", "")) if found else 0
    return number if 1 <= number <= _MOST else None


def size_bytes(text: str) -> int | None:
    """Return the bytes of `64MiB`, `1.5 GB` or `1000`; at least 1; None if it is not a size."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    size = math.floor(float(found[1].replace("_", "")) * _SIZES[(found[2] or "B").lower()])
    return size if 1 <= size <= _MOST else None


def duration_s(text: str) -> float | None:
    """Return the seconds of `10s`, `500ms`, `2m`, `1.5h` or, without a unit, of a number of seconds; more than 0."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    seconds = float(found[1].replace("_", "")) * _TIMES[found[2] or "s"]
    return seconds if seconds > 0 else None


def ratio(text: str) -> float | None:
    """Return a share from 0 to 1, written so or as a percentage."""
    found = _RATIO.fullmatch(text.strip())
    if found is None:
        return None
    share = float(found[1]) / (100 if found[2] else 1)
    return share if share <= 1 else None


def size_text(size: int) -> str:
    """Return a text that `size_bytes` reads as this size: in the largest unit that divides it, as `64MiB`."""
    unit = next((unit for unit in ("GiB", "MiB", "KiB") if size % _SIZES[unit.lower()] == 0), None)
    return str(size) if unit is None or not size else f"{size // _SIZES[unit.lower()]}{unit}"


def duration_text(seconds: float) -> str:
    """Return a text that `duration_s` reads as this time: in seconds, as `1.5s`."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
