"""The key of a registration: a partition as a group sees it."""

from __future__ import annotations

from typing import NamedTuple


class RegistrationKey(NamedTuple):
    """A partition as a group sees it."""

    group: str
    topic: str
    partition_id: int

    def __str__(self) -> str:
        return f"{self.group}:{self.topic}:{self.partition_id}"
