"""Under which group a task reads from a Java Broker, which hands out messages to members of groups only.

The invariants: nobody's group is touched, since names are made of the query's id or are the one that the option
`readGroup` gives; their number is bounded, because a Broker keeps a group's place for 20 days. One name serves all
partitions: a Broker's registrations are per group and partition.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "pytubemq_spark"
NAMES: Final = 8
"""Names of a query, for tasks that read the same partition at the same time: a retry while the first still runs."""
STRAYS: Final = 2
"""Names made up when all of those are taken, before a task gives up."""


def group_names(*, read_group: str | None, query: str | None, attempt: int) -> Iterator[str]:
    """Yield the names to try, in order.

    Args:
        read_group: the option; then it is the only name.
        query: the streaming query's id, None for a batch read.
        attempt: how often Spark has begun this task before, so that a retry does not begin with a name that the try
            before it may still hold.
    """
    if read_group is not None:
        yield read_group
        return
    base = f"{PREFIX}_{_word(query)}"
    for number in range(NAMES):
        yield f"{base}_{(attempt + number) % NAMES}"
    for _ in range(STRAYS):
        yield f"{base}_{uuid.uuid4().hex[:12]}"


def ends_group_names(*, read_group: str | None) -> Iterator[str]:
    """Yield the names under which a driver asks where partitions end; never one that a task reads under."""
    base = f"{read_group or PREFIX}_ends"
    for number in range(NAMES):
        yield f"{base}_{number}"
    for _ in range(STRAYS):
        yield f"{base}_{uuid.uuid4().hex[:12]}"


def _word(query: str | None) -> str:
    """Shorten a query's id to a part of a name: letters and digits only, 16 of them."""
    return re.sub(r"[^0-9A-Za-z]", "", query)[:16] if query else "batch"
