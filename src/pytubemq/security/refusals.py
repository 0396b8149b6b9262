"""Counts of requests that access control refused, or would have refused if it were enforced, by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum, unique


@unique
class RefusalReason(StrEnum):
    """A reason why a request is refused."""

    UNSIGNED = "unsigned"
    """It has neither a signature nor a token."""
    CREDENTIALS = "credentials"
    """Its user does not exist or is disabled, or the signature was made with a wrong secret."""
    CLOCK = "clock"
    """The time of its signature is too far from the Master's."""
    REPLAYED = "replayed"
    """Its signature was used before."""
    TOKEN = "token"
    """Its client token or visit token is missing, forged, another client's or too old."""
    OTHERS_CLIENT = "others_client"
    """Its client id belongs to another user."""
    UNREGISTERED = "unregistered"
    """It is a fetch or a confirm for which its member has not registered over this connection."""
    PERMISSION = "permission"
    """Its user lacks a permission."""
    OVERLOAD = "overload"
    """There were too many signatures to remember."""


@dataclass(slots=True)
class Refusals:
    """The counts of one server since its start."""

    refused: Counter[RefusalReason] = field(default_factory=Counter)
    would_refuse: Counter[RefusalReason] = field(default_factory=Counter)

    def record(self, reason: RefusalReason, *, enforced: bool) -> None:
        """Count a request: refused, or served although it would be refused if access control were enforced."""
        (self.refused if enforced else self.would_refuse)[reason] += 1

    def copy(self) -> Refusals:
        """Return these counts as of now."""
        return Refusals(self.refused.copy(), self.would_refuse.copy())
