"""The string micro-formats inside messages: broker, topic and subscription strings, conditions, client ids.

The invariant: `parse_x(format_x(value)) == value`, and a string of a peer gives its value or FormatError with the
string in it, never another error. Where peers are known to be sloppy (a blank port, a condition without items, an
unknown trailing segment) the parser takes it. The configuration strings of Brokers are in `text.configuration`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from pytubemq.errors import FormatError
from pytubemq.model.ids import DEFAULT_BROKER_PORT, Address, BrokerInfo, Partition
from pytubemq.model.limits import (
    MAX_CLIENT_ID_CHARS,
    MAX_FILTER_ITEMS,
    MAX_PARTITIONS_PER_TOPIC,
    MAX_WIRE_FILTERS,
    MAX_WIRE_SUBSCRIPTIONS,
)
from pytubemq.model.names import MAX_BROKER_ID, is_plain, is_served_topic, shown
from pytubemq.model.topic import is_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

B = TypeVar("B")

_MAX_PARTITION_ID: Final = 2**31 - 1
_LEAST_LONG_DIGITS: Final = len(str(_MAX_PARTITION_ID))
"""Numbers with fewer digits are ids of partitions."""
_BROKER_SHAPE: Final = "brokerId:host:port"


@dataclass(frozen=True, slots=True)
class TopicBroker:
    """The number of partitions and stores that a topic has on one Broker."""

    broker_id: int
    # Partitions before stores in `topicInfos`, stores before partitions in `topicMetaInfo`: the original has both
    # orders.
    partitions: int
    stores: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """The Brokers of a topic; `max_message_bytes` is None when the cluster's default holds."""

    topic: str
    brokers: tuple[TopicBroker, ...]
    max_message_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TopicMetaBroker:
    """As `TopicBroker`, with whether the partitions may be subscribed now."""

    broker_id: int
    stores: int
    partitions: int
    subscribable: bool


@dataclass(frozen=True, slots=True)
class TopicMetaInfo:
    """The Brokers of a topic, in the form for client-balanced consumers."""

    topic: str
    brokers: tuple[TopicMetaBroker, ...]


@dataclass(frozen=True, slots=True)
class SubscribeInfo:
    """A consumer of a group holds, or is to hold, a partition."""

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


@dataclass(frozen=True, slots=True)
class TopicCondition:
    """The filter items of a topic, in the order they came; none means every message."""

    topic: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClientId:
    """The parts of a client id. `group` and `kind` ("Pull", "Push" or "Balance") are None for a producer."""

    ip: str
    pid: int
    started_ms: int
    counter: int
    version: str
    group: str | None = None
    kind: str | None = None


# --- Brokers ----------------------------------------------------------------------------------------------------


def parse_broker_info(text: str, *, default_port: int = DEFAULT_BROKER_PORT) -> BrokerInfo:
    """`brokerId:host:port`; a blank or missing port is the default one.

    Raises:
        FormatError: it is not a Broker, or no peer could connect to it.
    """
    # Only blanks: the port may be one. A line break is a fault, which `check` finds.
    head, _, rest = text.strip(" ").partition(":")
    host, colon, port = rest.rpartition(":")
    if not colon or (host.strip().startswith("[") and "]" in port):  # a bare IPv6 address in brackets
        host, port = rest, ""
    broker_id = _number(head, text, "a Broker", _BROKER_SHAPE)
    # Blank is how the original writes its default port: 8123, or 8124 in the list for TLS.
    port_number = default_port if not port.strip() else _number(port, text, "a Broker", _BROKER_SHAPE)
    broker = BrokerInfo(broker_id, Address(host.strip().removeprefix("[").removesuffix("]"), port_number))
    try:
        return broker.check()
    except FormatError as error:
        raise _not("a Broker", text, _BROKER_SHAPE, why=error.message) from error


def format_broker_info(broker: BrokerInfo, *, default_port: int = DEFAULT_BROKER_PORT) -> str:
    """`brokerId:host:port`, the default port as one blank, as the original writes it."""
    port = " " if broker.address.port == default_port else str(broker.address.port)
    return f"{broker.broker_id}:{_host(broker.address)}:{port}"


def parse_broker_infos(texts: Iterable[str], *, default_port: int = DEFAULT_BROKER_PORT) -> dict[int, BrokerInfo]:
    """The Brokers of a list, by id."""
    brokers = [parse_broker_info(text, default_port=default_port) for text in texts]
    # The last of two with one id counts, as in the original's map.
    return {broker.broker_id: broker for broker in brokers}


def format_broker_infos(brokers: Iterable[BrokerInfo], *, default_port: int = DEFAULT_BROKER_PORT) -> tuple[str, ...]:
    """The list for a message, by id."""
    # In order, so that the same Brokers are the same text.
    ordered = sorted(brokers)
    return tuple([format_broker_info(broker, default_port=default_port) for broker in ordered])


# --- topics -----------------------------------------------------------------------------------------------------


def parse_topic_info(text: str, *, skip: Callable[[FormatError], None] | None = None) -> TopicInfo:
    """`topic#brokerId:partitions:stores[,...]#maxMessageBytes`; the last may be empty or missing.

    `skip` gets the error of a Broker's item that is malformed or out of bounds, which is left out then.

    Raises:
        FormatError: it is none.
    """
    shape = "topic#brokerId:partitions:stores[,...]#maxMessageBytes"
    segments = text.split("#")
    # More than three are taken: a later version may add to the end.
    if len(segments) < 2:
        raise _not("a topic's layout", text, shape)
    topic = _topic(segments[0], "a topic's layout", text, shape)

    def read(numbers: list[int]) -> TopicBroker:
        return TopicBroker(numbers[0], *_layout(numbers[1], numbers[2], "a topic's layout", text, shape))

    brokers = _topic_brokers(segments[1], 3, read, text, shape, skip)
    size = segments[2].strip() if len(segments) > 2 else ""
    limit = _signed(size, text, "a topic's layout", shape) if size else None
    # the original writes -2 for "not set" in places
    return TopicInfo(topic, brokers, limit if limit is not None and limit > 0 else None)


def format_topic_info(info: TopicInfo) -> str:
    """`topic#brokerId:partitions:stores[,...]#maxMessageBytes`."""
    # The last `#` stays with nothing behind it, as the original writes it.
    brokers = ",".join([f"{item.broker_id}:{item.partitions}:{item.stores}" for item in info.brokers])
    return f"{info.topic}#{brokers}#{'' if info.max_message_bytes is None else info.max_message_bytes}"


def parse_topic_meta_info(text: str, *, skip: Callable[[FormatError], None] | None = None) -> TopicMetaInfo:
    """`topic#brokerId:stores:partitions:status[,...]`: stores come before partitions here.

    `skip` gets the error of a Broker's item that is malformed or out of bounds, which is left out then.

    Raises:
        FormatError: it is none.
    """
    shape = "topic#brokerId:stores:partitions:status[,...]"
    topic, divider, rest = text.partition("#")
    if not divider:
        raise _not("a topic's layout", text, shape)

    def read(numbers: list[int]) -> TopicMetaBroker:
        # The other order than in `topicInfos`. Mixed up, the two would still be a valid layout.
        partitions, stores = _layout(numbers[2], numbers[1], "a topic's layout", text, shape)
        # 1 lets consumers in; the original writes 0 for all else.
        return TopicMetaBroker(numbers[0], stores, partitions, numbers[3] == 1)

    brokers = _topic_brokers(rest, 4, read, text, shape, skip)
    return TopicMetaInfo(_topic(topic, "a topic's layout", text, shape), brokers)


def format_topic_meta_info(info: TopicMetaInfo) -> str:
    """`topic#brokerId:stores:partitions:status[,...]`."""
    items = [f"{item.broker_id}:{item.stores}:{item.partitions}:{int(item.subscribable)}" for item in info.brokers]
    return f"{info.topic}#{','.join(items)}"


def parse_topic_condition(text: str) -> TopicCondition:
    """`topic#item[,item...]`; the Go client writes `topic#` for a topic without filter, which gives no items.

    Raises:
        FormatError: no topic in it, or no `#` behind it.
    """
    topic, divider, rest = text.partition("#")
    if not divider or not topic.strip() or not is_plain(topic):
        raise _not("a topic's filter", text, "topic#item[,item...]")
    # Counted before it is split, so that a long text costs no list.
    if rest.count(",") > MAX_WIRE_FILTERS:
        raise FormatError(
            f"the filter of topic {shown(topic.strip())} has {rest.count(',') + 1} items",
            hint=f"{MAX_FILTER_ITEMS} are allowed",
        )
    # Each item once: members of a group are compared by sets.
    return TopicCondition(topic.strip(), tuple(dict.fromkeys(_items(rest))))


def format_topic_condition(condition: TopicCondition) -> str:
    """`topic#item[,item...]`, items sorted; only for a topic with filters.

    Raises:
        FormatError: an item has `,` or `#` in it.
    """
    for item in condition.items:
        # With `,` in it an item would arrive as two, and `#` divides in all of these strings.
        if not item.strip() or "," in item or "#" in item:
            raise FormatError(f"not a filter item: {item!r}", hint="it must not be blank nor contain ',' or '#'")
    return f"{condition.topic}#{','.join(sorted(condition.items))}"


# --- partitions -------------------------------------------------------------------------------------------------


def parse_partition_info(text: str) -> PartitionInfo:
    """`brokerId:host:port#topic:partitionId`.

    Raises:
        FormatError: it is none.
    """
    shape = "brokerId:host:port#topic:partitionId"
    segments = text.split("#")
    if len(segments) != 2:
        raise _not("a partition", text, shape)
    # A blank port is taken here as well, although the original always writes a number.
    broker = parse_broker_info(segments[0])
    topic, divider, number = segments[1].strip().partition(":")
    if not divider:
        raise _not("a partition", text, shape)
    partition_id = _number(number, text, "a partition", shape, most=_MAX_PARTITION_ID)
    return PartitionInfo(broker, Partition(broker.broker_id, _topic(topic, "a partition", text, shape), partition_id))


def format_partition_info(info: PartitionInfo) -> str:
    """`brokerId:host:port#topic:partitionId`; the port is always a number here."""
    address = info.broker.address
    return (
        f"{info.broker.broker_id}:{_host(address)}:{address.port}#{info.partition.topic}:{info.partition.partition_id}"
    )


def parse_subscribe_info(text: str) -> SubscribeInfo:
    """`consumerId@group#brokerId:host:port#topic:partitionId`.

    Raises:
        FormatError: it is none.
    """
    shape = "consumerId@group#brokerId:host:port#topic:partitionId"
    who, divider, where = text.partition("#")
    # The first `@` divides, and another one would make group or consumer ambiguous: refused, not guessed.
    consumer_id, at, group = who.partition("@")
    if not divider or not at or not consumer_id.strip() or not group.strip() or "@" in group or not is_plain(who):
        raise _not("a subscription", text, shape)
    held = parse_partition_info(where)
    return SubscribeInfo(consumer_id.strip(), group.strip(), held.broker, held.partition)


def parse_subscribed(texts: Iterable[str]) -> frozenset[Partition]:
    """The partitions of many subscriptions; what stands before the partition's number is read once if it is the same.

    Raises:
        FormatError: one is none.
    """
    read: dict[str, Partition] = {}
    found = set()
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
    return frozenset(found)


def format_subscribe_info(info: SubscribeInfo) -> str:
    """`consumerId@group#brokerId:host:port#topic:partitionId`."""
    held = format_partition_info(PartitionInfo(info.broker, info.partition))
    return f"{info.consumer_id}@{info.group}#{held}"


def parse_failure_info(text: str) -> FailureInfo:
    """`errCode:brokerId:host:port#topic:partitionId`.

    Raises:
        FormatError: it is none.
    """
    # At the first colon only: the Broker that follows has more.
    code, divider, rest = text.partition(":")
    if not divider:
        raise _not("a partition's failure", text, "errCode:brokerId:host:port#topic:partitionId")
    number = _number(code, text, "a partition's failure", "errCode:brokerId:host:port#topic:partitionId")
    held = parse_partition_info(rest)
    return FailureInfo(number, held.broker, held.partition)


def format_failure_info(info: FailureInfo) -> str:
    """`errCode:brokerId:host:port#topic:partitionId`."""
    return f"{info.code}:{format_partition_info(PartitionInfo(info.broker, info.partition))}"


def parse_part_sub_info(text: str) -> tuple[str, list[tuple[int, int]]]:
    """`topic#brokerId:partitionId[,...]`: the topic, and (Broker id, partition id) each.

    Raises:
        FormatError: it is none.
    """
    shape = "topic#brokerId:partitionId[,...]"
    what = "a topic's subscription"
    topic, divider, rest = text.partition("#")
    if not divider:
        raise _not(what, text, shape)
    if rest.count(",") >= MAX_WIRE_SUBSCRIPTIONS:
        raise FormatError(
            f"a topic's subscription has {rest.count(',') + 1} partitions", hint=f"{MAX_WIRE_SUBSCRIPTIONS} are allowed"
        )
    held = []
    for item in _items(rest):
        broker_id, _, number = item.partition(":")
        held.append(
            (_broker_id(broker_id, text, what, shape), _number(number, text, what, shape, most=_MAX_PARTITION_ID))
        )
    return _topic(topic, what, text, shape), held


def format_part_sub_info(topic: str, held: Sequence[tuple[int, int]]) -> str:
    """`topic#brokerId:partitionId[,...]`."""
    return f"{topic}#{','.join([f'{broker_id}:{number}' for broker_id, number in held])}"


def parse_required_partition(text: str) -> dict[Partition, int]:
    """`partitionKey=offset[,...]`: where a bound group wants to begin; below 0 where its position says.

    Raises:
        FormatError: it is none.
    """
    wanted = {}
    if text.count(",") > MAX_WIRE_SUBSCRIPTIONS:
        raise FormatError(
            f"a list of offsets has {text.count(',') + 1} partitions", hint=f"{MAX_WIRE_SUBSCRIPTIONS} are allowed"
        )
    for item in _items(text):
        key, _, offset = item.partition("=")
        wanted[Partition.parse(key)] = _signed(offset, text, "a list of offsets", "brokerId:topic:partitionId=offset")
    return wanted


def format_required_partition(wanted: dict[Partition, int]) -> str:
    """`partitionKey=offset[,...]`."""
    return ",".join([f"{partition}={offset}" for partition, offset in wanted.items()])


# --- client ids -------------------------------------------------------------------------------------------------


def format_client_id(client: ClientId) -> str:
    """`[group_]ip-pid-milliseconds-counter-[Pull|Push|Balance-]version`: Brokers split it after the last `_` on `-`.

    Raises:
        FormatError: too long for any peer, or a part would break the strings an id goes into.
    """
    prefix = "" if client.group is None else f"{client.group}_"
    kind = "" if client.kind is None else f"{client.kind}-"
    text = f"{prefix}{client.ip}-{client.pid}-{client.started_ms}-{client.counter}-{kind}{client.version}"
    return check_client_id(text)


def check_client_id(text: str) -> str:
    """The trimmed id, if it is one that the servers take.

    Raises:
        FormatError: blank, too long, with a control character, or with `@` or `#`, which divide the strings an id goes
            into.
    """
    text = text.strip()
    if not text or len(text) > MAX_CLIENT_ID_CHARS or "@" in text or "#" in text or not is_plain(text):
        raise FormatError(
            f"not a client id: {shown(text)}",
            hint=f"it has 1 to {MAX_CLIENT_ID_CHARS} printable characters and neither '@' nor '#'",
        )
    return text


# --- helpers ----------------------------------------------------------------------------------------------------


def _items(text: str) -> list[str]:
    """The parts between commas, trimmed, without blank ones."""
    return [item for item in map(str.strip, text.split(",")) if item]


def _host(address: Address) -> str:
    # In brackets, since colons divide the string.
    return f"[{address.host}]" if ":" in address.host else address.host


def _topic_brokers(
    text: str,
    count: int,
    read: Callable[[list[int]], B],
    whole: str,
    shape: str,
    skip: Callable[[FormatError], None] | None,
) -> tuple[B, ...]:
    """Return the items of a layout, one for each Broker: `count` numbers of which the first is the Broker's id."""
    # Broker by Broker: with `skip`, one that is misconfigured does not hide the topic's others.
    found: dict[int, B] = {}
    for item in _items(text):
        try:
            # One part more than wanted at most, so a text of colons costs no list.
            first, *rest = item.split(":", count)
            broker_id = _broker_id(first, whole, "a topic's layout", shape)
            numbers = [broker_id, *(_number(part, whole, "a topic's layout", shape) for part in rest)]
            if len(numbers) != count or broker_id in found:
                raise _not("a topic's layout", whole, shape)
            found[broker_id] = read(numbers)
        except FormatError as error:
            if skip is None:
                raise
            skip(error)
    return tuple(found.values())


def _layout(partitions: int, stores: int, what: str, text: str, shape: str) -> tuple[int, int]:
    """Return the two numbers of a topic on one Broker if a Broker can have that many partitions."""
    # A few characters can claim billions of partitions, and who reads this makes them all.
    if not is_layout(partitions, stores):
        why = f"{partitions} partitions in {stores} stores are not 1 to {MAX_PARTITIONS_PER_TOPIC} in all"
        raise _not(what, text, shape, why=why)
    return partitions, stores


def _topic(name: str, what: str, text: str, shape: str) -> str:
    name = name.strip()
    if not is_served_topic(name):
        raise _not(what, text, shape, why=f"{shown(name)} is not a topic name")
    return name


def _broker_id(part: str, text: str, what: str, shape: str) -> int:
    number = _number(part, text, what, shape, most=MAX_BROKER_ID)
    # The original takes 0 for "derive the id from the address", so no Broker has it.
    if not number:
        raise _not(what, text, shape, why="a Broker has no id of 0")
    return number


def _number(part: str, text: str, what: str, shape: str, *, most: int | None = None) -> int:
    number = _signed(part, text, what, shape)
    if number < 0 or (most is not None and number > most):
        raise _not(what, text, shape)
    return number


def _signed(part: str, text: str, what: str, shape: str) -> int:
    digits = part.strip()
    # `int` would take underscores and digits of other scripts, too, and raises an error of its own for thousands of
    # digits.
    if not digits.removeprefix("-").isdecimal() or not digits.isascii() or len(digits) > 19:
        raise _not(what, text, shape)
    return int(digits)


def _not(what: str, text: str, shape: str, *, why: str = "") -> FormatError:
    return FormatError(f"not {what}: {shown(text)}{why and f': {why}'}", hint=f"its form is {shape}")
