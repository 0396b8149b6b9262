"""The state of a mock cluster: messages, positions, assignments."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.model.ids import UNDEFINED, Address, BrokerInfo, Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch.checksum import check_sum
from pytubemq.wire.batch.record_batch import RecordBatchHead, encode_columns, stored_batch_head
from pytubemq.wire.batch.stored import stored_entry
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.master import EventProto
from pytubemq.wire.text.partition_strings import SubscribeInfo, format_subscribe_info

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.wire.rpc.methods import Method

BROKER_ID = 1
APPEND_TIME_MS = 1_700_000_000_000
"""The time at which every message is appended: always the same, so that tests can compare."""


@dataclass(slots=True)
class MockMessage:
    """A message in the mock."""

    payload: bytes
    flag: int = 0
    msg_type: str | None = None
    corrupt: bool = False
    """True if it is stored with a wrong checksum."""
    pack: int = 0
    """Messages with the same number other than 0 came in one record batch."""

    @property
    def code(self) -> int:
        """Return the filter code."""
        return NO_FILTER_CODE if self.msg_type is None else filter_code(self.msg_type)

    def entry(self, number: int) -> bytes:
        """Return the message as in a fetch response."""
        checked = check_sum(self.payload) ^ (1 if self.corrupt else 0)
        return stored_entry(number + 1, self.payload, self.flag, number * OFFSET_UNIT, APPEND_TIME_MS, checked)


@dataclass(slots=True)
class MockPartition:
    """A partition's messages, and each group's position and last fetch."""

    messages: list[MockMessage] = field(default_factory=list)
    confirmed: dict[str, int] = field(default_factory=dict)
    fetched: dict[str, int] = field(default_factory=dict)
    """End of the fetch that is not confirmed yet, as a message number."""
    owners: dict[str, str] = field(default_factory=dict)
    filters: dict[str, frozenset[int]] = field(default_factory=dict)
    numbered: dict[tuple[int, int], int] = field(default_factory=dict)
    """The message stored under a producer id and sequence."""
    packs: int = 0
    """The number of record batches received."""

    @property
    def end(self) -> int:
        """The number of the next message."""
        return len(self.messages)

    def offset_at(self, time_ms: int) -> int:
        """Return the offset of the first message that was appended at that time or later."""
        return 0 if time_ms <= APPEND_TIME_MS else self.end * OFFSET_UNIT

    def records(self, numbers: list[int], *, packs: bool) -> list[bytes]:
        """Return these messages as in a fetch response; with `packs` as whole record batches."""
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
        """Return the whole record batch that a message came in."""
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
        return (
            stored_batch_head(RecordBatchHead(first * OFFSET_UNIT, first + 1, APPEND_TIME_MS), len(columns)) + columns
        )

    def select(self, group: str, start: int, limit: int) -> tuple[list[int], int]:
        """Return the numbers of the messages to deliver from `start` on, and the start of the next fetch."""
        codes = self.filters.get(group)
        chosen: list[int] = []
        number = start
        while number < self.end and len(chosen) < limit:
            message = self.messages[number]
            if not codes or message.code in codes:
                chosen.append(number)
            number += 1
        return chosen, number


@dataclass(frozen=True, slots=True)
class Recorded:
    """A received request."""

    method: Method
    message: Any
    peer: str


class MockCluster:
    """The state of a mock cluster, with the event that wakes callers who wait for a change."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        capabilities: Capability = OURS,
        auto_assign: bool = True,
        broker_id: int = BROKER_ID,
        listen: Address | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.capabilities = capabilities
        self.auto_assign = auto_assign
        self.address = listen or Address("127.0.0.1", 0)
        """The Master's."""
        self.broker_address = Address(self.address.host, 0)
        self.topics: dict[str, int] = dict(topics or {})
        self.peers: list[MockCluster] = []
        """Other mocks whose Broker this one's Master names, too."""
        self.online = True
        """Whether this Broker's Master names it to producers; who asks where topics are deployed hears of it always."""
        self.max_message_bytes: int | None = None
        self.partitions: defaultdict[tuple[str, int], MockPartition] = defaultdict(MockPartition)
        self.requests: list[Recorded] = []
        self.producers: dict[str, int] = {}
        """Client id -> the last change that it was sent."""
        self.consumers: dict[str, str] = {}
        """Client id -> group."""
        self.subscriptions: dict[str, tuple[str, ...]] = {}
        self.nodes: dict[str, int] = {}
        """Client id -> node, of consumers that balance themselves."""
        self.reported: dict[str, tuple[str, ...]] = {}
        """Client id -> what such a consumer said to hold."""
        self.last_beats: dict[str, Any] = {}
        """Client id -> the last heartbeat of such a consumer."""
        self.closed: set[str] = set()
        """Topics that cannot be consumed, as the Master reports them to such consumers."""
        self.told_meta: tuple[str, ...] = ()
        self.meta_id = 0
        self.newest_id = UNDEFINED
        """The operators' command to go to the newest messages."""
        self.queued_events: defaultdict[str, deque[EventProto]] = defaultdict(deque)
        self.acknowledged: list[EventProto] = []
        self.check_sum = 1
        self.changed = asyncio.Event()
        self._events = 0

    @property
    def info(self) -> BrokerInfo:
        """This Broker."""
        return BrokerInfo(self.broker_id, self.broker_address)

    def touch(self) -> None:
        """Wake all callers who wait for a change."""
        self.changed.set()

    def push_event(self, client_id: str, op_type: int, partitions: list[Partition]) -> int:
        """Queue an event for a consumer, 1 connect, 2 disconnect; return its number."""
        self._events += 1
        group = self.consumers[client_id]
        infos = tuple(
            format_subscribe_info(SubscribeInfo(client_id, group, self.info, partition)) for partition in partitions
        )
        self.queued_events[client_id].append(
            EventProto(rebalance_id=self._events, op_type=op_type, status=0, subscribe_info=infos)
        )
        self.touch()
        return self._events

    def all_partitions(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic."""
        return [Partition(self.broker_id, topic, number) for number in range(self.topics.get(topic, 0))]
