"""What a mock cluster remembers: messages, positions, who holds what."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.checksum import check_sum
from pytubemq.wire.hot import stored_entry

APPEND_TIME_MS = 1_700_000_000_000
"""When the mock says that it appended a message: always the same, so that tests can compare."""


@dataclass(slots=True)
class MockMessage:
    """A message in the mock."""

    payload: bytes
    flag: int = 0
    msg_type: str | None = None
    corrupt: bool = False
    """Stored with a wrong checksum."""

    def entry(self, number: int) -> bytes:
        """As a fetch answers it."""
        checked = check_sum(self.payload) ^ (1 if self.corrupt else 0)
        return stored_entry(number + 1, self.payload, self.flag, number * OFFSET_UNIT, APPEND_TIME_MS, checked)


@dataclass(slots=True)
class MockPartition:
    """A partition's messages, and per group its position and what it fetched last."""

    messages: list[MockMessage] = field(default_factory=list)
    confirmed: dict[str, int] = field(default_factory=dict)
    fetched: dict[str, int] = field(default_factory=dict)
    """End of the fetch that is not confirmed yet, as a message number."""
    owners: dict[str, str] = field(default_factory=dict)
    filters: dict[str, frozenset[int]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The number the next message gets."""
        return len(self.messages)

    def select(self, group: str, start: int, limit: int) -> tuple[list[int], int]:
        """Numbers of the messages to deliver from `start` on, and where the next fetch begins."""
        codes = self.filters.get(group)
        chosen: list[int] = []
        number = start
        while number < self.end and len(chosen) < limit:
            message = self.messages[number]
            code = NO_FILTER_CODE if message.msg_type is None else filter_code(message.msg_type)
            if not codes or code in codes:
                chosen.append(number)
            number += 1
        return chosen, number
