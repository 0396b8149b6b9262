"""Queries about a Broker: topics, positions of groups, consumers, messages.

The invariant: a query changes nothing and creates neither a position nor a registration nor a partition; the size of a
result is bounded, and the disk is read on a thread.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.broker.consume.batch_unpacking import unpack_batches
from pytubemq.errors import BadRequestError, Code, FormatError, NotFoundError, OffsetMovedError, UnavailableError
from pytubemq.model.filters import filter_code
from pytubemq.model.limits import MAX_ANSWER_BYTES, MAX_INSPECTED_PARTITIONS, MAX_SCAN_ENTRIES, MAX_SHOWN_MESSAGES
from pytubemq.model.missing_topic import missing_text
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch.payload import decode_payload
from pytubemq.wire.batch.stored import StoredMessage, decode_stored
from pytubemq.wire.text.attributes import parse_attributes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytubemq.broker.members.consumer_registry import Registration
    from pytubemq.broker.members.flow_control import Meter
    from pytubemq.broker.registration_key import RegistrationKey
    from pytubemq.broker.state import BrokerState
    from pytubemq.broker.topics import ServedTopic

_SHOWN_BYTES: Final = MAX_ANSWER_BYTES // 2
"""The bytes of messages in one result, before they become text; one message always fits."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition: offsets of messages, and positions in its bytes."""

    topic: str
    partition_id: int
    min_offset: int
    max_offset: int
    min_position: int
    max_position: int

    @property
    def size_bytes(self) -> int:
        """The bytes that it stores now."""
        return self.max_position - self.min_position


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group's position in a partition; None is a missing value."""

    key: RegistrationKey
    confirmed: int | None
    in_flight: int | None
    """Messages sent and not confirmed, in offsets; None without a consumer."""
    partition: PartitionFacts | None
    """None when the partition is no longer served here."""
    confirmed_position: int | None
    read_position: int | None
    """The position behind the last sent message."""


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """A consumer's registration for a partition."""

    key: RegistrationKey
    consumer_id: str
    heard_of_ms: int
    """The time of its last request, ms since 1970."""
    filtered: bool
    host: str
    priority_id: int
    meter: Meter | None
    """The bytes that it read under the cluster's flow-control rules, if there are any."""
    partition: PartitionFacts | None
    confirmed: int | None
    in_flight: int


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as it is stored in its partition."""

    offset: int
    body: bytes
    attributes: str | None

    @property
    def msg_type(self) -> str | None:
        """The filter item that its attributes name."""
        return parse_attributes(self.attributes)[1] if self.attributes else None


class BrokerInspect:
    """Queries to one Broker. Event loop only."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def partitions(self, topics: Collection[str] = ()) -> list[PartitionFacts]:
        """Return the partitions of these topics, of all when none is named; unknown topics have none.

        Raises:
            BadRequestError: they are too many for one result.
        """
        wanted = self._topics(topics)
        _check_count(sum(len(served.partition_ids) for served in wanted))
        return [
            self._partition(served.config.name, number) for served in wanted for number in sorted(served.partition_ids)
        ]

    async def groups(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return all groups that have a position or a consumer here, and those of them that have a consumer now."""
        online = frozenset(registration.key.group for registration in self._registrations())
        return online | await self._state.positions.groups(), online

    async def positions(self, groups: Collection[str] = (), topics: Collection[str] = ()) -> list[GroupFacts]:
        """Return these groups' positions in these topics, sorted; all of them when none is named.

        Raises:
            BadRequestError: they are too many for one result.
            StorageError, OSError: an index could not be read.
        """
        positions = self._state.positions
        if not groups and not topics:
            _check_count(positions.count)  # before any of them is looked at
        held = {
            registration.key
            for registration in self._registrations()
            if (not groups or registration.key.group in groups) and (not topics or registration.key.topic in topics)
        }
        chosen = await positions.known(groups, topics) | held
        _check_count(len(chosen))
        return await self._facts(sorted(chosen))

    async def position(self, key: RegistrationKey) -> GroupFacts:
        """Return one group's position in one partition, also if the group has none there.

        Raises:
            NotFoundError: no such topic or partition here. StorageError, OSError: an index could not be read.
        """
        self._check(key.topic, key.partition_id)
        return (await self._facts([key]))[0]

    def consumers(self, groups: Collection[str] = ()) -> list[ConsumerFacts]:
        """Return the registrations of consumers of these groups, of all when none is named. Sorted.

        Raises:
            BadRequestError: they are too many for one result.
        """
        registrations = [
            registration for registration in self._registrations() if not groups or registration.key.group in groups
        ]
        _check_count(len(registrations))
        state = self._state
        now_s, wall_ms = state.clock.now_s(), state.clock.wall_ms()
        return [
            ConsumerFacts(
                registration.key,
                registration.consumer_id,
                wall_ms - max(0, int((now_s - registration.heard_s) * 1000)),
                registration.codes is not None,
                registration.origin.host,
                registration.priority_id,
                registration.meter,
                self._partition_of(registration.key),
                state.positions.current(registration.key),
                registration.cursor.handed_out - registration.cursor.confirmed,
            )
            for registration in sorted(registrations, key=lambda registration: registration.key)
        ]

    async def newest(
        self, topic: str, partition_id: int | None, *, count: int, filters: Collection[str] = ()
    ) -> list[ShownMessage]:
        """Return the newest messages of a partition (the topic's first if none is named), the oldest of them first.

        Fewer than `count` if there are fewer, if they are large, or if the filter accepts fewer among the newest.

        Raises:
            NotFoundError: no such topic or partition here. StorageError, OSError: they could not be read.
        """
        if partition_id is None:
            partition_id = min(self._find_served(topic).partition_ids)
        self._check(topic, partition_id)
        codes = frozenset(map(filter_code, filters)) or None
        count = min(count, MAX_SHOWN_MESSAGES)
        store = self._state.store
        scanned = count if codes is None else MAX_SCAN_ENTRIES

        def read(partition_id: int = partition_id) -> list[ShownMessage]:
            least, most = store.ends(topic, partition_id)
            offset, found = max(least, most - scanned * OFFSET_UNIT), list[ShownMessage]()
            while offset < most:
                try:
                    piece = store.read(
                        topic, partition_id, offset, end_offset=most,
                        max_bytes=_SHOWN_BYTES, max_messages=count, codes=codes,
                    )  # fmt: skip
                except OffsetMovedError:  # the oldest message has expired meanwhile
                    offset = store.ends(topic, partition_id)[0]
                    continue
                if piece.has_batches:
                    piece = unpack_batches(
                        piece, max_bytes=_SHOWN_BYTES, max_messages=count, codes=codes, end_offset=most
                    )
                found += (_shown(message) for message in decode_stored(b"".join(piece.parts)))
                if codes is not None:  # two filter items may have the same code
                    found = [message for message in found if message.msg_type in (None, *filters)]
                found = _last_within(found, count)
                offset = piece.next_offset
            return found

        return await asyncio.to_thread(read)

    # --- inside ---------------------------------------------------------------------------------------------

    def _registrations(self) -> list[Registration]:
        """Return the registrations that are valid now."""
        now_s = self._state.clock.now_s()
        return [
            registration for registration in self._state.registry.registrations() if registration.lease_until_s > now_s
        ]

    def _topics(self, names: Collection[str]) -> list[ServedTopic]:
        topics = self._state.topics
        found = topics if not names else [served for name in names if (served := topics.get(name)) is not None]
        return sorted(found, key=lambda served: served.config.name)

    def _find_served(self, topic: str) -> ServedTopic:
        if not self._state.serving.started:
            raise UnavailableError("this Broker is starting or stopping", hint="try again later", code=503)
        served = self._state.topics.get(topic)
        if served is None:
            raise NotFoundError(
                f"{missing_text([topic])} at this Broker", hint="create it at the Master", code=Code.NOT_FOUND
            )
        return served

    def _check(self, topic: str, partition_id: int) -> None:
        served = self._find_served(topic)
        if partition_id not in served.partition_ids:
            raise NotFoundError(
                f"topic {topic} has no partition {partition_id} at this Broker",
                hint=f"it has {_ranges(sorted(served.partition_ids))}",
                code=Code.NOT_FOUND,
            )

    def _partition(self, topic: str, partition_id: int) -> PartitionFacts:
        return PartitionFacts(topic, partition_id, *self._state.store.extent(topic, partition_id))

    def _partition_of(self, key: RegistrationKey) -> PartitionFacts | None:
        served = self._state.topics.get(key.topic)
        if served is None or key.partition_id not in served.partition_ids:
            return None
        return self._partition(key.topic, key.partition_id)

    async def _facts(self, keys: Sequence[RegistrationKey]) -> list[GroupFacts]:
        state = self._state
        now_s = state.clock.now_s()
        rows: list[tuple[RegistrationKey, int | None, Registration | None, PartitionFacts | None]] = [
            (key, state.positions.current(key), state.registry.get(key, now_s=now_s), self._partition_of(key))
            for key in keys
        ]
        asked = [
            (key, offset)
            for key, confirmed, registration, partition in rows
            if partition is not None
            for offset in {confirmed, registration.cursor.handed_out if registration else None} - {None}
            if offset is not None
        ]
        store = state.store

        def look_up() -> dict[tuple[RegistrationKey, int], int]:
            return {(key, offset): store.position_of(key.topic, key.partition_id, offset) for key, offset in asked}

        found = await asyncio.to_thread(look_up) if asked else {}
        return [
            GroupFacts(
                key,
                confirmed,
                registration.cursor.handed_out - registration.cursor.confirmed if registration else None,
                partition,
                None if confirmed is None else found.get((key, confirmed)),
                found.get((key, registration.cursor.handed_out)) if registration else None,
            )
            for key, confirmed, registration, partition in rows
        ]


def _shown(message: StoredMessage) -> ShownMessage:
    try:
        body, attributes = decode_payload(message.payload, message.flag)
    except FormatError:  # its producer left out what its flag claims: show what there is
        body, attributes = message.payload, None
    return ShownMessage(message.offset or 0, body, attributes)


def _last_within(messages: list[ShownMessage], count: int) -> list[ShownMessage]:
    """Return the last messages, at most `count`, that are not too large together; always the last one."""
    kept: list[ShownMessage] = []
    room = _SHOWN_BYTES
    for message in reversed(messages[-count:]):
        room -= len(message.body) + len(message.attributes or "")
        if kept and room < 0:
            break
        kept.append(message)
    return kept[::-1]


def _check_count(count: int) -> None:
    if count > MAX_INSPECTED_PARTITIONS:
        raise BadRequestError(
            f"the response would have {count} partitions, {MAX_INSPECTED_PARTITIONS} are allowed",
            hint="name topics or groups",
            code=Code.BAD_REQUEST,
        )


def _ranges(ids: Sequence[int]) -> str:
    """Return partition ids in short form, as in `0 to 3, 10000 to 10003`."""
    parts: list[str] = []
    start = previous = ids[0]
    for number in (*ids[1:], None):
        if number == previous + 1:
            previous = number
            continue
        parts.append(str(start) if start == previous else f"{start} to {previous}")
        if number is not None:
            start = previous = number
    return ", ".join(parts)
