"""Checks of options that clients are given.

The invariant: an option that makes no sense is refused where it is written, by name, before anything is connected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TypeVar

from pytubemq.errors import ConfigError, MessageError
from pytubemq.model.limits import MAX_FILTER_ITEM_CHARS, MAX_FILTER_ITEMS, MAX_TOPICS_PER_CLIENT
from pytubemq.model.names import check_topic

N = TypeVar("N", int, float)


def check_topics(topics: Sequence[str]) -> tuple[str, ...]:
    """Return the topics of a consumer: at least one, each once, each with a name that every peer takes."""
    if not topics:
        raise ConfigError("a consumer needs a topic", hint="write  tube.consumer('group', 'topic')")
    given: Sequence[object] = topics
    for topic in given:
        if not isinstance(topic, str):
            names = ", ".join(map(repr, topic)) if isinstance(topic, (list, tuple, set, frozenset)) else "'a', 'b'"
            raise ConfigError(
                f"a topic is named by text, not {type(topic).__name__}",
                hint=f"write the topics one after the other: tube.consumer(group, {names})",
            )
    if len(topics) > MAX_TOPICS_PER_CLIENT:
        raise ConfigError(f"{len(topics)} topics are too many for one consumer; at most {MAX_TOPICS_PER_CLIENT}")
    return tuple(dict.fromkeys(check_topic(topic) for topic in topics))


def check_filters(
    topics: tuple[str, ...], filters: Mapping[str, Sequence[str]] | Sequence[str] | None
) -> dict[str, frozenset[str]]:
    """Return filter items by topic. A plain sequence holds for every topic; a topic without items gets everything."""
    if not filters:
        return {}
    if isinstance(filters, str):
        raise ConfigError(f"filters is the text {filters!r}", hint=f"write a list: filters=[{filters!r}]")
    per_topic = filters if isinstance(filters, Mapping) else dict.fromkeys(topics, filters)
    found: dict[str, frozenset[str]] = {}
    for topic, items in per_topic.items():
        if topic not in topics:
            raise ConfigError(f"filters name the topic {topic!r}, which this consumer does not read")
        if isinstance(items, str):
            raise ConfigError(f"the filters of {topic} are the text {items!r}", hint=f"write a list: [{items!r}]")
        clean = frozenset(_filter_item(topic, item) for item in items)
        if len(clean) > MAX_FILTER_ITEMS:
            raise ConfigError(f"{len(clean)} filter items for {topic}; at most {MAX_FILTER_ITEMS}")
        if clean:
            found[topic] = clean
    return found


def _filter_item(topic: str, item: object) -> str:
    if not isinstance(item, str):
        raise ConfigError(f"a filter item for {topic} is {item!r}", hint=f"write texts: filters=[{str(item)!r}]")
    text = item.strip()
    if not text or len(text) > MAX_FILTER_ITEM_CHARS or any(char in text for char in ",=#@"):
        raise MessageError(
            f"not a filter item for {topic}: {item!r}",
            hint=f"use 1 to {MAX_FILTER_ITEM_CHARS} characters, without , = # and @",
            code=400,
        )
    return text


def check_between(name: str, value: N, least: float, most: float) -> N:
    """Return a number that lies within its bounds."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        shown = _plain(value) if is_number else repr(value)[:80]
        raise ConfigError(f"{name} is {shown}", hint=f"write a number from {_plain(least)} to {_plain(most)}")
    return value


def check_optional(name: str, value: N | None, least: float, most: float) -> N | None:
    """Return a number that lies within its bounds, or None."""
    return None if value is None else check_between(name, value, least, most)


def _plain(number: float) -> str:
    """Format a number for people: 1,000,000 and not 1e+06."""
    return f"{number:,.0f}" if abs(number) < 1e18 and number == int(number) else f"{number:g}"
