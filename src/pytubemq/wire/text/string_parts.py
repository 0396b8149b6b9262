"""Parts of the string micro-formats: lists, numbers, names, and the error of a string that is malformed.

The invariant: a part of a peer gives its value or FormatError with the whole string in it, never another error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import FormatError
from pytubemq.model.names import MAX_BROKER_ID, is_served_topic, shown

if TYPE_CHECKING:
    from pytubemq.model.ids import Address

MAX_PARTITION_ID: Final = 2**31 - 1

MAX_NUMBER_CHARS: Final = 19
"""The longest number in a string, its sign included."""


def items_of(text: str) -> list[str]:
    """Return the parts between commas, trimmed, without blank ones."""
    return [item for item in map(str.strip, text.split(",")) if item]


def host_text(address: Address) -> str:
    """Return the host, an IPv6 address in brackets."""
    # In brackets, since colons divide the string.
    return f"[{address.host}]" if ":" in address.host else address.host


def topic_of(name: str, what: str, text: str, shape: str) -> str:
    """Return the name of a topic, trimmed, if servers have topics of such a name."""
    name = name.strip()
    if not is_served_topic(name):
        raise malformed(what, text, shape, why=f"{shown(name)} is not a topic name")
    return name


def broker_id_of(part: str, text: str, what: str, shape: str) -> int:
    """Return the id of a Broker."""
    number = number_of(part, text, what, shape, most=MAX_BROKER_ID)
    # The original takes 0 for "derive the id from the address", so no Broker has it.
    if not number:
        raise malformed(what, text, shape, why="a Broker has no id of 0")
    return number


def number_of(part: str, text: str, what: str, shape: str, *, most: int | None = None) -> int:
    """Return a number that is neither below 0 nor above `most`."""
    number = signed_number_of(part, text, what, shape)
    if number < 0 or (most is not None and number > most):
        raise malformed(what, text, shape)
    return number


def signed_number_of(part: str, text: str, what: str, shape: str) -> int:
    """Return a number of at most `MAX_NUMBER_CHARS`, written in ASCII."""
    digits = part.strip()
    # `int` would take underscores and digits of other scripts, too, and raises an error of its own for thousands of
    # digits.
    if not digits.removeprefix("-").isdecimal() or not digits.isascii() or len(digits) > MAX_NUMBER_CHARS:
        raise malformed(what, text, shape)
    return int(digits)


def malformed(what: str, text: str, shape: str, *, why: str = "") -> FormatError:
    """Return the error of a string that is not `what`, which has the form `shape`."""
    return FormatError(f"not {what}: {shown(text)}{why and f': {why}'}", hint=f"its form is {shape}")
