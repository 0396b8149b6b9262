"""Checks that a group may consume the topics that it requests.

The rules are the original's: they hold for topics whose control is switched on, they are checked when a consumer
registers, and a topic without a record of control is free to everybody. Forbidding a topic to a group that already
runs is another matter (`Catalogue.disabled_topics`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.master.catalogue.catalogue import Catalogue

SHOWN_NAMES = 8
_NOTHING: frozenset[str] = frozenset()


class Authorization:
    """The decision, by the records of topics and of consuming."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def check(self, group: str, topics: frozenset[str], conditions: Mapping[str, frozenset[str]]) -> None:
        """Check that `group` may consume `topics`, with the filter items in `conditions`.

        Raises:
            Refused: no topic, or a filter of another topic (400); the group may not consume a topic (450); it
                must filter and does not, or requests items that it may not have (455).
        """
        if not topics:
            raise Refused(Code.BAD_REQUEST, f"group {group} names no topic")
        if unsubscribed := conditions.keys() - topics:
            raise Refused(
                Code.BAD_REQUEST, f"group {group} filters topics it does not subscribe to: {_names(unsubscribed)}"
            )
        controlled = sorted(topic for topic in topics if self._controlled(topic))
        closed = [topic for topic in controlled if not self._open(group, topic)]
        if closed:
            raise Refused(
                Code.CONSUME_GROUP_FORBIDDEN,
                f"group {group} is not allowed to consume {_names(closed)}; an administrator can allow it",
            )
        for topic in controlled:
            self._check_items(group, topic, conditions.get(topic, _NOTHING))

    def _controlled(self, topic: str) -> bool:
        record = self._catalogue.topics.get(topic)
        return record is not None and record.enable_auth_control

    def _open(self, group: str, topic: str) -> bool:
        record = self._catalogue.consumes.get((group, topic))
        return record is not None and record.consume_enable

    def _check_items(self, group: str, topic: str, items: frozenset[str]) -> None:
        record = self._catalogue.consumes[group, topic]
        if not record.filter_enable:
            return
        if not record.filter_conds:
            raise Refused(
                Code.CONSUME_CONTENT_FORBIDDEN,
                f"group {group} may consume {topic} only by filter items, and none is allowed to it",
            )
        if not items:
            raise Refused(
                Code.CONSUME_CONTENT_FORBIDDEN,
                f"group {group} may consume {topic} only by filter items: name some of those it is allowed",
            )
        if foreign := items - record.filter_conds:
            raise Refused(
                Code.CONSUME_CONTENT_FORBIDDEN,
                f"group {group} is not allowed the filter items {_names(foreign)} of {topic}",
            )


def _names(names: Iterable[str]) -> str:
    """Return a few of the names as one text; a consumer may have thousands."""
    found = sorted(names)
    more = f" and {len(found) - SHOWN_NAMES} more" if len(found) > SHOWN_NAMES else ""
    return ", ".join(found[:SHOWN_NAMES]) + more
