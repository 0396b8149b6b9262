"""The strings of a topic: its layout on Brokers, in two forms, and its filter.

The invariant: `parse_x(format_x(value)) == value`, and a string of a peer gives its value or FormatError with the
string in it, never another error. Where peers are known to be sloppy (a condition without items, an unknown trailing
segment) the parser takes it. The configuration strings of Brokers are in `configuration`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pytubemq.errors import FormatError
from pytubemq.model.limits import MAX_FILTER_ITEMS, MAX_PARTITIONS_PER_TOPIC, MAX_WIRE_FILTERS
from pytubemq.model.names import is_plain, shown
from pytubemq.model.topic import is_layout
from pytubemq.wire.text.string_parts import broker_id_of, items_of, malformed, number_of, signed_number_of, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable

B = TypeVar("B")


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
    """As `TopicBroker`, with a flag for whether the partitions may be subscribed now."""

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
class TopicCondition:
    """The filter items of a topic, in the order they came; none means every message."""

    topic: str
    items: tuple[str, ...]


def parse_topic_info(text: str, *, skip: Callable[[FormatError], None] | None = None) -> TopicInfo:
    """Parse `topic#brokerId:partitions:stores[,...]#maxMessageBytes`; the last may be empty or missing.

    `skip` gets the error of a Broker's item that is malformed or out of bounds, which is left out then.

    Raises:
        FormatError: it is none.
    """
    shape = "topic#brokerId:partitions:stores[,...]#maxMessageBytes"
    segments = text.split("#")
    # More than three are taken: a later version may add to the end.
    if len(segments) < 2:
        raise malformed("a topic's layout", text, shape)
    topic = topic_of(segments[0], "a topic's layout", text, shape)

    def read(numbers: list[int]) -> TopicBroker:
        return TopicBroker(numbers[0], *_layout(numbers[1], numbers[2], "a topic's layout", text, shape))

    brokers = _topic_brokers(segments[1], 3, read, text, shape, skip)
    size = segments[2].strip() if len(segments) > 2 else ""
    limit = signed_number_of(size, text, "a topic's layout", shape) if size else None
    # the original writes -2 for "not set" in places
    return TopicInfo(topic, brokers, limit if limit is not None and limit > 0 else None)


def format_topic_info(info: TopicInfo) -> str:
    """Format `topic#brokerId:partitions:stores[,...]#maxMessageBytes`."""
    # The last `#` stays with nothing behind it, as the original writes it.
    brokers = ",".join([f"{item.broker_id}:{item.partitions}:{item.stores}" for item in info.brokers])
    return f"{info.topic}#{brokers}#{'' if info.max_message_bytes is None else info.max_message_bytes}"


def parse_topic_meta_info(text: str, *, skip: Callable[[FormatError], None] | None = None) -> TopicMetaInfo:
    """Parse `topic#brokerId:stores:partitions:status[,...]`: stores come before partitions here.

    `skip` gets the error of a Broker's item that is malformed or out of bounds, which is left out then.

    Raises:
        FormatError: it is none.
    """
    shape = "topic#brokerId:stores:partitions:status[,...]"
    topic, divider, rest = text.partition("#")
    if not divider:
        raise malformed("a topic's layout", text, shape)

    def read(numbers: list[int]) -> TopicMetaBroker:
        # The other order than in `topicInfos`. Mixed up, the two would still be a valid layout.
        partitions, stores = _layout(numbers[2], numbers[1], "a topic's layout", text, shape)
        # 1 lets consumers in; the original writes 0 for all else.
        return TopicMetaBroker(numbers[0], stores, partitions, numbers[3] == 1)

    brokers = _topic_brokers(rest, 4, read, text, shape, skip)
    return TopicMetaInfo(topic_of(topic, "a topic's layout", text, shape), brokers)


def format_topic_meta_info(info: TopicMetaInfo) -> str:
    """Format `topic#brokerId:stores:partitions:status[,...]`."""
    items = [f"{item.broker_id}:{item.stores}:{item.partitions}:{int(item.subscribable)}" for item in info.brokers]
    return f"{info.topic}#{','.join(items)}"


def parse_topic_condition(text: str) -> TopicCondition:
    """Parse `topic#item[,item...]`; the Go client writes `topic#` for a topic without filter, which gives no items.

    Raises:
        FormatError: no topic in it, or no `#` behind it.
    """
    topic, divider, rest = text.partition("#")
    if not divider or not topic.strip() or not is_plain(topic):
        raise malformed("a topic's filter", text, "topic#item[,item...]")
    # Counted before it is split, so that a long text costs no list.
    if rest.count(",") > MAX_WIRE_FILTERS:
        raise FormatError(
            f"the filter of topic {shown(topic.strip())} has {rest.count(',') + 1} items",
            hint=f"{MAX_FILTER_ITEMS} are allowed",
        )
    # Each item once: members of a group are compared by sets.
    return TopicCondition(topic.strip(), tuple(dict.fromkeys(items_of(rest))))


def format_topic_condition(condition: TopicCondition) -> str:
    """Format `topic#item[,item...]`, items sorted; only for a topic with filters.

    Raises:
        FormatError: an item has `,` or `#` in it.
    """
    for item in condition.items:
        # With `,` in it an item would arrive as two, and `#` divides in all of these strings.
        if not item.strip() or "," in item or "#" in item:
            raise FormatError(f"not a filter item: {item!r}", hint="it must not be blank nor contain ',' or '#'")
    return f"{condition.topic}#{','.join(sorted(condition.items))}"


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
    for item in items_of(text):
        try:
            # One part more than wanted at most, so a text of colons costs no list.
            first, *rest = item.split(":", count)
            broker_id = broker_id_of(first, whole, "a topic's layout", shape)
            numbers = [broker_id, *(number_of(part, whole, "a topic's layout", shape) for part in rest)]
            if len(numbers) != count or broker_id in found:
                raise malformed("a topic's layout", whole, shape)
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
        raise malformed(what, text, shape, why=why)
    return partitions, stores
