"""The attributes of a group: `k=v&k=v`, the record's time in them, and the values of predefined fields."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

PREDEFINED: Final = "__addcol"
_NUMBERED: Final = re.compile(r"__addcol([0-9]{1,9})_")
_DIGITS: Final = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M"}
_MOST_MS: Final = 1 << 53


def parse_attributes(text: str) -> dict[str, str]:
    """Parse the pairs of a text, the last of equal names; an entry without `=` has an empty value."""
    found: dict[str, str] = {}
    for entry in text.split("&"):
        name, _, value = entry.partition("=")
        if name:
            found[name] = value
    return found


def format_attributes(attributes: Mapping[str, str]) -> str:
    """Format pairs as text.

    Raises:
        ValueError: a name or a value contains a separator.
    """
    for name, value in attributes.items():
        if not name or "&" in name or "=" in name or "&" in value:
            raise ValueError(f"the attribute {name!r} = {value!r} cannot be written: & and = separate attributes")
    return "&".join(f"{name}={value}" for name, value in attributes.items())


def time_us(attributes: Mapping[str, str], zone: str) -> int | None:
    """Return the records' time, in microseconds since 1970: `dt` in milliseconds, else `t` as 8, 10 or 12 digits."""
    text = attributes.get("dt")
    if text is not None and text.isascii() and text.isdigit() and len(text) < 20:
        in_us = milliseconds_in_us(int(text))
        if in_us is not None:
            return in_us
    text = attributes.get("t")
    return None if text is None else _digits_us(text, zone)


def milliseconds_in_us(time_ms: int) -> int | None:
    """Convert a time to microseconds, which a timestamp has; None where it is too far from 1970 for one."""
    return time_ms * 1000 if abs(time_ms) <= _MOST_MS else None


@lru_cache(maxsize=4096)
def _digits_us(text: str, zone: str) -> int | None:
    pattern = _DIGITS.get(len(text))
    if pattern is None or not (text.isascii() and text.isdigit()):
        return None
    try:
        local = datetime.strptime(text, pattern).replace(tzinfo=ZoneInfo(zone))
        return int(local.timestamp()) * 1_000_000
    except (ValueError, OverflowError):
        return None


def stream_of(attributes: Mapping[str, str]) -> str | None:
    """Return the stream's name, under its name of today or the older one."""
    return attributes.get("streamId") or attributes.get("tid")


def predefined_values(attributes: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of predefined fields, by the numbers in their names."""
    names = [name for name in attributes if name.startswith(PREDEFINED)]
    if not names:
        return ()
    return tuple(attributes[name] for name in sorted(names, key=_number))


def _number(name: str) -> int:
    match = _NUMBERED.match(name)
    return int(match[1]) if match else 0
