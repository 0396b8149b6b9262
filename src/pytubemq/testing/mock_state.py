"""What a mock cluster remembers: messages, positions, who holds what."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.checksum import check_sum
from pytubemq.wire.pack import PackHead, encode_columns, stored_pack_head
from pytubemq.wire.stored import stored_entry

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
    pack: int = 0
    """Messages with the same number other than 0 came in one pack."""

    @property
    def code(self) -> int:
        """The filter code."""
        return NO_FILTER_CODE if self.msg_type is None else filter_code(self.msg_type)

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
    numbered: dict[tuple[int, int], int] = field(default_factory=dict)
    """Producer id and sequence -> the message that has it."""
    packs: int = 0
    """How many packs came."""

    @property
    def end(self) -> int:
        """The number the next message gets."""
        return len(self.messages)

    def offset_at(self, time_ms: int) -> int:
        """Where the first message stands that was appended then or later."""
        return 0 if time_ms <= APPEND_TIME_MS else self.end * OFFSET_UNIT

    def records(self, numbers: list[int], *, packs: bool) -> list[bytes]:
        """These messages as a fetch answers them; `packs`: whole packs to one who knows them."""
        found: list[bytes] = []
        last_pack = 0
        for number in numbers:
            message = self.messages[number]
            if not packs or not message.pack or message.corrupt:
                found.append(message.entry(number))
            elif message.pack != last_pack:
                last_pack = message.pack
                found.append(self._pack(number))
        return found

    def _pack(self, number: int) -> bytes:
        """The whole pack that a message came in."""
        wanted = self.messages[number].pack
        first = last = number
        while first and self.messages[first - 1].pack == wanted:
            first -= 1
        while last + 1 < self.end and self.messages[last + 1].pack == wanted:
            last += 1
        held = self.messages[first : last + 1]
        columns = encode_columns(
            [message.payload for message in held],
            [message.flag for message in held],
            [message.code for message in held],
        )
        return stored_pack_head(PackHead(first * OFFSET_UNIT, first + 1, APPEND_TIME_MS), len(columns)) + columns

    def select(self, group: str, start: int, limit: int) -> tuple[list[int], int]:
        """Numbers of the messages to deliver from `start` on, and where the next fetch begins."""
        codes = self.filters.get(group)
        chosen: list[int] = []
        number = start
        while number < self.end and len(chosen) < limit:
            message = self.messages[number]
            if not codes or message.code in codes:
                chosen.append(number)
            number += 1
        return chosen, number
