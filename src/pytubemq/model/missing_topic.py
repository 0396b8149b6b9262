"""The error for topics that do not exist: one wording for the Master, the Broker, clients, the command line and Spark.

The invariant: the message says no more than the caller knows, and the hint names a topic that is nearly called so.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pytubemq.errors import Code, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

LIST = "pytubemq topic list  names all topics"
_SHOWN = 10


def topic_missing(
    *topics: str,
    known: Collection[str] | None,
    code: Code = Code.TOPIC_NOT_DEPLOYED,
    creatable: bool = True,
    key: str | None = None,
) -> NotFoundError:
    """Return the error for topics that do not exist.

    Args:
        topics: their names, at least one.
        known: the topics that there are; None if the Master does not name them, so that a topic may exist on Brokers
            that are away.
        code: the protocol's code.
        creatable: whether creating the topic would help the caller; else the list of topics is recommended.
        key: the option or key that names the topic.
    """
    uncertain = known is None or any(topic in known for topic in topics)
    message = missing_text(topics) + (", or no Broker serves it now" if uncertain else "")
    otherwise = f"create it with  pytubemq topic create {' '.join(topics)}" if creatable else LIST
    near = suggestion(topics, known or ())
    return NotFoundError(
        message if key is None else f"{key}: {message}",
        hint=otherwise if near is None else f"{near} Else {otherwise}" if creatable else f"{near} {otherwise}",
        code=code,
    )


def missing_text(topics: Sequence[str]) -> str:
    """Return the message alone: `topic 'demo' does not exist`."""
    names = ", ".join(map(repr, topics[:_SHOWN])) + (" ..." if len(topics) > _SHOWN else "")
    return f"topic {names} does not exist" if len(topics) == 1 else f"topics {names} do not exist"


def suggestion(topics: Sequence[str], known: Collection[str]) -> str | None:
    """Return `did you mean demo?`, with the nearest topic to each; None if none is near."""
    near = [close for topic in topics[:_SHOWN] for close in nearest(topic, known)]
    return f"did you mean {' and '.join(dict.fromkeys(near))}?" if near else None


def nearest(topic: str, known: Collection[str]) -> list[str]:
    """Return the topic that was most likely meant, if one is near; upper and lower case do not count."""
    if topic in known:
        return []
    by_lower = {name.lower(): name for name in known}
    return [by_lower[close] for close in difflib.get_close_matches(topic.lower(), by_lower, 1)]
