"""The configuration strings between Master and Broker: a Broker's defaults and one topic's settings.

The invariant: a blank field means "as the default says" and is None here; positions never move, whatever is blank.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytubemq.errors import FormatError
from pytubemq.model.limits import MAX_PARTITIONS_PER_TOPIC
from pytubemq.model.names import check_served_topic, is_served_topic
from pytubemq.model.topic import is_layout

if TYPE_CHECKING:
    from collections.abc import Iterable

C = TypeVar("C", "BrokerDefaultConf", "BrokerTopicConf")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDefaultConf:
    """A Broker's defaults for topics; fields in the order of the string.

    `delete_when` is always blank on the wire. Sizes are in MiB, counts in thousands, intervals in milliseconds.
    """

    partitions: int = 1
    accept_publish: bool = True
    accept_subscribe: bool = True
    unflush_threshold: int = 1000
    unflush_interval_ms: int = 10_000
    # A dead field of the original, kept for its place: later ones are found by position.
    delete_when: str | None = None
    delete_policy: str = "delete,168h"
    stores: int = 1
    unflush_data_hold: int = 0
    # The three memCache values are carried and have no effect on a Broker of ours, which has no such cache.
    mem_cache_mib: int = 3
    mem_cache_count_k: int = 10
    mem_cache_flush_ms: int = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTopicConf:
    """The settings of one topic of a Broker; None is the Broker's default. Fields in the order of the string.

    `status` is 0 normal, 1 soft deleted, 2 soft removed, 3 removed. `max_message_bytes` None is the cluster's default.
    """

    topic: str
    partitions: int | None = None
    accept_publish: bool | None = None
    accept_subscribe: bool | None = None
    unflush_threshold: int | None = None
    unflush_interval_ms: int | None = None
    delete_when: str | None = None
    delete_policy: str | None = None
    stores: int | None = None
    # In the middle and never blank: the original writes 0 where it writes a blank for all else.
    status: int = 0
    unflush_data_hold: int | None = None
    mem_cache_mib: int | None = None
    mem_cache_count_k: int | None = None
    mem_cache_flush_ms: int | None = None
    # May be missing: the original's Broker takes 14 fields as well.
    max_message_bytes: int | None = None


_FIELDS: Final = {
    # Types as text, since annotations are not evaluated; `_value` goes by how they begin.
    cls: ([field.name for field in fields(cls)], [str(field.type) for field in fields(cls)])
    for cls in (BrokerDefaultConf, BrokerTopicConf)
}
"""Names and types of the fields, computed once."""
_DEFAULT_SHAPE: Final = "12 fields, numPartitions:acceptPublish:acceptSubscribe:...:memCacheFlushIntvl"
_TOPIC_SHAPE: Final = "15 fields, topic:numPartitions:acceptPublish:...:maxMsgSizeInBytes"


def parse_broker_default_conf(text: str) -> BrokerDefaultConf:
    """Parse a `brokerDefaultConfInfo`; what is blank takes the original's default.

    Raises:
        FormatError: it is none.
    """
    return _parse(BrokerDefaultConf, text, least=12, what="a Broker's defaults", shape=_DEFAULT_SHAPE)


def format_broker_default_conf(conf: BrokerDefaultConf) -> str:
    """Format a `brokerDefaultConfInfo`."""
    return _format(conf)


def parse_broker_topic_conf(text: str) -> BrokerTopicConf:
    """Parse a `brokerTopicSetConfInfo`; the last field may be missing.

    Raises:
        FormatError: it is none.
    """
    return _parse(BrokerTopicConf, text, least=14, what="a topic's settings", shape=_TOPIC_SHAPE)


def format_broker_topic_conf(conf: BrokerTopicConf) -> str:
    """Format a `brokerTopicSetConfInfo`."""
    return _format(conf)


def parse_topic_values(texts: Iterable[str], what: str) -> dict[str, str]:
    """Parse settings by topic that have a string of their own: items `topic:value`, as in `TOPIC_DURABILITY`.

    Raises:
        FormatError: an item is none, or a topic has two.
    """
    found: dict[str, str] = {}
    for text in texts:
        # At the first colon: a topic's name has none, whatever the value has.
        topic, colon, value = text.partition(":")
        # Twice would leave open which of the two holds.
        if not (is_served_topic(topic) and colon and value) or topic in found:
            raise FormatError(f"not {what}: {text[:200]!r}", hint="its form is topic:value, once for each topic")
        found[topic] = value
    return found


def format_topic_value(topic: str, value: str) -> str:
    """Format one item for `parse_topic_values`."""
    return f"{topic}:{value}"


def _parse(cls: type[C], text: str, *, least: int, what: str, shape: str) -> C:
    parts = text.split(":")
    names, kinds = _FIELDS[cls]
    # By position, so with a field more or less all behind it would be read as something else.
    if not least <= len(parts) <= len(names):
        raise FormatError(f"not {what}: {text[:200]!r} has {len(parts)} fields", hint=f"its form is {shape}")
    values: dict[str, Any] = {}
    # Not strict: the last field may be missing, and then keeps its default.
    for name, kind, part in zip(names, kinds, parts, strict=False):
        part = part.strip()
        # Blank means that the default holds, and must not become 0 or False.
        if part:
            values[name] = _value(kind, part, f"{what}: {name} is {part[:80]!r}", shape)
    # The name goes into paths on a Broker's disk.
    if cls is BrokerTopicConf:
        check_served_topic(values.get("topic", ""))
    return cls(**values)


def check_layout(topic: str, partitions: int, stores: int) -> None:
    """Refuse a layout that no Broker can have, since few characters can claim very many partitions.

    Raises:
        FormatError: partitions times stores is not within 1 and `MAX_PARTITIONS_PER_TOPIC`.
    """
    if not is_layout(partitions, stores):
        raise FormatError(
            f"topic {topic} has {partitions} partitions in {stores} stores",
            hint=f"a Broker takes 1 to {MAX_PARTITIONS_PER_TOPIC} partitions of a topic",
        )


def _value(kind: str, part: str, what: str, shape: str) -> object:
    if kind.startswith("str"):
        return part
    if kind.startswith("bool"):
        if part.lower() in {"true", "false"}:
            return part.lower() == "true"
    # Bounded, since `int` raises an error of its own for thousands of digits.
    elif part.isascii() and part.removeprefix("-").isdecimal() and len(part) < 20:
        return int(part)
    raise FormatError(f"not {what}", hint=f"its form is {shape}")


def _format(conf: BrokerDefaultConf | BrokerTopicConf) -> str:
    return ":".join([_text(getattr(conf, name)) for name in _FIELDS[type(conf)][0]])


def _text(value: object) -> str:
    if value is None:
        # One blank, as the original writes it. Nothing at all would be lost to a reader whose split drops empty ends.
        return " "
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
