"""Durability of acknowledged messages."""

from __future__ import annotations

from enum import Enum

from pytubemq.errors import BadRequestError, Code


class Durability(Enum):
    """The events that an acknowledged message survives; from the slowest and safest to the fastest."""

    DISK = "disk"
    """Flushed to the device before it is acknowledged: survives a power cut."""
    PROCESS = "process"
    """Written to the operating system before it is acknowledged: survives a killed Broker, not a power cut."""
    MEMORY = "memory"
    """Acknowledged from the Broker's memory and written right after: survives neither, as in the original."""


def parse_durability(text: str) -> Durability:
    """Return one of the three, in upper or lower case.

    Raises:
        BadRequestError: it is not a durability.
    """
    try:
        return Durability(text.strip().lower())
    except ValueError:
        raise BadRequestError(
            f"not a durability: {text[:80]!r}",
            hint=f"it is one of {', '.join(one.value for one in Durability)}",
            code=Code.BAD_REQUEST,
        ) from None
