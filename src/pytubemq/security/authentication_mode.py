"""What a cluster does with callers that it cannot identify or that lack a permission."""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class AuthenticationMode(StrEnum):
    """A stage on the way to a cluster that lets no one in without permission."""

    OFF = "off"
    """Nobody is authenticated."""
    PERMISSIVE = "permissive"
    """Callers are authenticated; what would be refused is logged and served."""
    ENFORCED = "enforced"
    """What is not permitted is refused."""
