"""The matrix's rows by their names, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .cells import (
    java_bound,
    java_producer,
    java_pull,
    java_push,
    mixed_group,
    our_bound,
    our_producer,
    our_pull,
    our_push,
)
from .client_balance import java_client_balance, our_client_balance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .bench import Bench

ROWS: dict[str, Callable[[Bench], Awaitable[dict[str, Any]]]] = {
    (row.__doc__ or "").splitlines()[0].rstrip("."): row
    for row in (
        java_producer,
        java_pull,
        java_push,
        java_client_balance,
        java_bound,
        our_producer,
        our_pull,
        our_push,
        our_client_balance,
        our_bound,
        mixed_group,
    )
}
"""Each begins when its column is ready, ends with the numbers of its cell, or raises what is wrong."""
