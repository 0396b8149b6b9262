"""The error for topics that do not exist: one wording for the Master, the Broker, clients, the command line and Spark.

The invariant: the message says no more than the caller knows, and the hint suggests a topic with a similar name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import Code, NotFoundError
from pytubemq.model.suggest import suggest

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
    """Return `did you mean demo?`, with the most similar topic to each; None if none is similar."""
    near = [suggest(topic, known) for topic in topics[:_SHOWN] if topic not in known]
    names = dict.fromkeys(name for name in near if name is not None)
    return f"did you mean {' and '.join(names)}?" if names else None
