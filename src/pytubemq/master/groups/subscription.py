"""The subscription that a consumer of either kind requests.

The invariant: an accepted subscription names topics that are on some Broker, and filters no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.master.registration_checks import check_topics
from pytubemq.model.limits import MAX_STRAY_PARTITIONS, MAX_TOPIC_CHARS
from pytubemq.model.missing_topic import missing_text
from pytubemq.wire.text.topic_strings import parse_topic_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytubemq.master.brokers.brokers import Brokers

_SHOWN_NAMES = 10

Subscription = tuple[frozenset[str], "Mapping[str, frozenset[str]]"]


def check_subscription(
    brokers: Brokers, client_id: str, topic_list: Sequence[str], topic_condition: Sequence[str]
) -> Subscription:
    """Return the topics, and the filter items of those that are filtered.

    Raises:
        Refused: no topic (400), one that is on no Broker (431), or a filter of another topic (400).
        FormatError: a condition is malformed.
    """
    topics = check_topics(topic_list, client=client_id)
    if not topics:
        raise Refused(Code.BAD_REQUEST, f"{client_id} subscribes to no topic")
    missing = [topic for topic in topics if not brokers.topics.deployed(topic)]
    if missing:
        raise Refused(Code.TOPIC_NOT_DEPLOYED, missing_text(missing))
    conditions = [parse_topic_condition(text) for text in topic_condition]
    unsubscribed = sorted({condition.topic for condition in conditions} - set(topics))
    if unsubscribed:
        raise Refused(Code.BAD_REQUEST, f"{client_id} filters topics it does not subscribe to: {_some(unsubscribed)}")
    return frozenset(topics), {
        condition.topic: frozenset(condition.items) for condition in conditions if condition.items
    }


def check_partitions(brokers: Brokers, client_id: str, topics: Iterable[str], count: int) -> None:
    """Refuse more partitions of some topics than there are, and `MAX_STRAY_PARTITIONS`, before they are read.

    Raises:
        Refused: 400, there are more.
    """
    if count <= MAX_STRAY_PARTITIONS:
        return
    there = sum(place.partitions * place.stores for topic in topics for place in brokers.topics.deployed(topic))
    if count > there + MAX_STRAY_PARTITIONS:
        raise Refused(
            Code.BAD_REQUEST,
            f"{client_id} lists {count} partitions but its topics have {there}; list each assigned partition once",
        )


def _some(names: Sequence[str]) -> str:
    """Return the first names, shortened, because a peer may send a million, each as long as a frame."""
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(name[:MAX_TOPIC_CHARS] for name in names[:_SHOWN_NAMES]) + more
