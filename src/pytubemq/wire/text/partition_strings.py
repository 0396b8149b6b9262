"""The strings of partitions: where one is, who subscribes to it, why it is refused, where its group is to begin.

The invariant: `parse_x(format_x(value)) == value`, and a string of a peer gives its value or FormatError with the
string in it, never another error.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from pytubemq.errors import FormatError
from pytubemq.model.ids import BrokerInfo, Partition
from pytubemq.model.limits import MAX_WIRE_SUBSCRIPTIONS
from pytubemq.model.names import is_plain
from pytubemq.wire.text.broker_strings import parse_broker_info
from pytubemq.wire.text.string_parts import (
    MAX_NUMBER_CHARS,
    MAX_PARTITION_ID,
    broker_id_of,
    host_text,
    items_of,
    malformed,
    number_of,
    signed_number_of,
    topic_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_LEAST_LONG_DIGITS: Final = len(str(MAX_PARTITION_ID))
"""Numbers with fewer digits are ids of partitions."""


@dataclass(frozen=True, slots=True)
class SubscribeInfo:
    """A partition that a consumer of a group holds, or is to hold."""

    consumer_id: str
    group: str
    broker: BrokerInfo
    partition: Partition


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition and where its Broker is."""

    broker: BrokerInfo
    partition: Partition


@dataclass(frozen=True, slots=True)
class FailureInfo:
    """A partition that the Broker no longer grants to this consumer, and the code that says why."""

    code: int
    broker: BrokerInfo
    partition: Partition


def parse_partition_info(text: str) -> PartitionInfo:
    """Parse `brokerId:host:port#topic:partitionId`.

    Raises:
        FormatError: it is none.
    """
    shape = "brokerId:host:port#topic:partitionId"
    segments = text.split("#")
    if len(segments) != 2:
        raise malformed("a partition", text, shape)
    # A blank port is taken here as well, although the original always writes a number.
    broker = parse_broker_info(segments[0])
    topic, divider, number = segments[1].strip().partition(":")
    if not divider:
        raise malformed("a partition", text, shape)
    partition_id = number_of(number, text, "a partition", shape, most=MAX_PARTITION_ID)
    return PartitionInfo(broker, Partition(broker.broker_id, topic_of(topic, "a partition", text, shape), partition_id))


def format_partition_info(info: PartitionInfo) -> str:
    """Format `brokerId:host:port#topic:partitionId`; the port is always a number here."""
    address, partition = info.broker.address, info.partition
    return f"{info.broker.broker_id}:{host_text(address)}:{address.port}#{partition.topic}:{partition.partition_id}"


def parse_subscribe_info(text: str) -> SubscribeInfo:
    """Parse `consumerId@group#brokerId:host:port#topic:partitionId`.

    Raises:
        FormatError: it is none.
    """
    shape = "consumerId@group#brokerId:host:port#topic:partitionId"
    who, divider, where = text.partition("#")
    # The first `@` divides, and another one would make group or consumer ambiguous: refused, not guessed.
    consumer_id, at, group = who.partition("@")
    if not divider or not at or not consumer_id.strip() or not group.strip() or "@" in group or not is_plain(who):
        raise malformed("a subscription", text, shape)
    held = parse_partition_info(where)
    return SubscribeInfo(consumer_id.strip(), group.strip(), held.broker, held.partition)


class SubscribedParser:
    """The partitions of subscriptions; what precedes the partition's number is read once if it is the same."""

    def __init__(self) -> None:
        self.found: set[Partition] = set()
        self._read: dict[str, Partition] = {}

    def add(self, texts: Iterable[str]) -> None:
        """Parse some more. Raises FormatError: one is no subscription."""
        read, found = self._read, self.found
        for text in texts:
            head, _, number = text.rpartition(":")
            # A member may name thousands of partitions, most of few Brokers and topics, so only their numbers differ.
            before = read.get(head)
            # A number that may be none goes the plain way, which has the words for it.
            if before is None or not (number.isascii() and number.isdecimal() and len(number) < _LEAST_LONG_DIGITS):
                partition = read[head] = parse_subscribe_info(text).partition
            else:
                partition = Partition(before.broker_id, before.topic, int(number))
            found.add(partition)


def parse_subscribed(texts: Iterable[str]) -> frozenset[Partition]:
    """Parse the partitions of many subscriptions.

    Raises:
        FormatError: one is none.
    """
    parser = SubscribedParser()
    parser.add(texts)
    return frozenset(parser.found)


def format_subscribe_info(info: SubscribeInfo) -> str:
    """Format `consumerId@group#brokerId:host:port#topic:partitionId`."""
    held = format_partition_info(PartitionInfo(info.broker, info.partition))
    return f"{info.consumer_id}@{info.group}#{held}"


def format_subscribed(
    consumer_id: str, group: str, partitions: Iterable[Partition], broker: Callable[[int], BrokerInfo]
) -> tuple[str, ...]:
    """Format as `format_subscribe_info` many partitions of one consumer; `broker` returns the Broker of an id."""
    heads: dict[tuple[int, str], str] = {}
    found = []
    for partition in partitions:
        head = heads.get(partition[:2])
        if head is None:
            whole = format_subscribe_info(SubscribeInfo(consumer_id, group, broker(partition.broker_id), partition))
            head = heads[partition[:2]] = whole.removesuffix(str(partition.partition_id))
        found.append(f"{head}{partition.partition_id}")
    return tuple(found)


def parse_failure_info(text: str) -> FailureInfo:
    """Parse `errCode:brokerId:host:port#topic:partitionId`.

    Raises:
        FormatError: it is none.
    """
    # At the first colon only: the Broker that follows has more.
    code, divider, rest = text.partition(":")
    if not divider:
        raise malformed("a partition's failure", text, "errCode:brokerId:host:port#topic:partitionId")
    number = number_of(code, text, "a partition's failure", "errCode:brokerId:host:port#topic:partitionId")
    held = parse_partition_info(rest)
    return FailureInfo(number, held.broker, held.partition)


def format_failure_info(info: FailureInfo) -> str:
    """Format `errCode:brokerId:host:port#topic:partitionId`."""
    return f"{info.code}:{format_partition_info(PartitionInfo(info.broker, info.partition))}"


def parse_part_sub_info(
    text: str, known: dict[str, tuple[int, int]] | None = None
) -> tuple[str, list[tuple[int, int]]]:
    """Parse `topic#brokerId:partitionId[,...]`: the topic, and (Broker id, partition id) each.

    Args:
        text: the string.
        known: what was read of other texts already, by item; this one's are added.

    Raises:
        FormatError: it is none.
    """
    shape = "topic#brokerId:partitionId[,...]"
    what = "a topic's subscription"
    topic, divider, rest = text.partition("#")
    if not divider:
        raise malformed(what, text, shape)
    # Counted before it is split, so that a long text costs no list.
    if rest.count(",") >= MAX_WIRE_SUBSCRIPTIONS:
        raise FormatError(
            f"a topic's subscription has {rest.count(',') + 1} partitions", hint=f"{MAX_WIRE_SUBSCRIPTIONS} are allowed"
        )
    held = []
    for item in items_of(rest):
        place = None if known is None else known.get(item)
        if place is None:
            broker_id, _, number = item.partition(":")
            place = (
                broker_id_of(broker_id, text, what, shape),
                number_of(number, text, what, shape, most=MAX_PARTITION_ID),
            )
            if known is not None:
                known[item] = place
        held.append(place)
    return topic_of(topic, what, text, shape), held


class PartSubInfosParser:
    """The partitions of subscriptions of topics; `brokerId:partitionId` is read once, whatever the topic."""

    def __init__(self) -> None:
        self.found: set[Partition] = set()
        self._known: dict[str, tuple[int, int]] = {}

    def add(self, text: str) -> None:
        """Parse one more. Raises FormatError: it is no subscription of a topic."""
        topic, held = parse_part_sub_info(text, self._known)
        self.found.update([Partition(broker_id, topic, number) for broker_id, number in held])


def parse_part_sub_infos(texts: Iterable[str]) -> frozenset[Partition]:
    """Parse the partitions of many subscriptions of topics.

    Raises:
        FormatError: one is none.
    """
    parser = PartSubInfosParser()
    for text in texts:
        parser.add(text)
    return frozenset(parser.found)


def format_part_sub_info(topic: str, held: Sequence[tuple[int, int]]) -> str:
    """Format `topic#brokerId:partitionId[,...]`."""
    return f"{topic}#{','.join([f'{broker_id}:{number}' for broker_id, number in held])}"


class OffsetsParser:
    """`partitionKey=offset[,...]`: where a bound group wants to begin; below 0 where its position says."""

    def __init__(self, text: str) -> None:
        """Begin with a list. Raises FormatError: it is too long."""
        # Counted before it is split, as above.
        if text.count(",") > MAX_WIRE_SUBSCRIPTIONS:
            raise FormatError(
                f"a list of offsets has {text.count(',') + 1} partitions", hint=f"{MAX_WIRE_SUBSCRIPTIONS} are allowed"
            )
        self.wanted: dict[Partition, int] = {}
        self._text = text
        self._items = iter(items_of(text))
        self._read: dict[str, Partition] = {}

    def add(self, most: int) -> bool:
        """Parse at most so many partitions; return False at the end. Raises FormatError: one is malformed."""
        shape = "brokerId:topic:partitionId=offset"
        wanted, read = self.wanted, self._read
        begun = False
        for item in islice(self._items, most):
            begun = True
            key, _, offset = item.partition("=")
            head, _, number = key.rpartition(":")
            before = read.get(head)
            # As in `SubscribedParser`: what precedes the partition's number is read once if it is the same.
            if before is None or not (number.isascii() and number.isdecimal() and len(number) < _LEAST_LONG_DIGITS):
                partition = read[head] = Partition.parse(key)
            else:
                partition = Partition(before.broker_id, before.topic, int(number))
            # Signed: below 0 leaves the decision to the group's position. The later one of two for a partition counts.
            is_plain = offset.isdecimal() and offset.isascii() and len(offset) <= MAX_NUMBER_CHARS
            wanted[partition] = (
                int(offset) if is_plain else signed_number_of(offset, self._text, "a list of offsets", shape)
            )
        return begun


def parse_required_partition(text: str) -> dict[Partition, int]:
    """Parse `partitionKey=offset[,...]`: where a bound group wants to begin; below 0 where its position says.

    Raises:
        FormatError: it is none.
    """
    parser = OffsetsParser(text)
    parser.add(MAX_WIRE_SUBSCRIPTIONS + 1)
    return parser.wanted


def format_required_partition(wanted: dict[Partition, int]) -> str:
    """Format `partitionKey=offset[,...]`."""
    return ",".join([f"{partition}={offset}" for partition, offset in wanted.items()])
