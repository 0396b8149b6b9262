"""The errors all adapters raise alike, and those that the Master raises about its records."""

from __future__ import annotations

from pytubemq.errors import AlreadyExistsError, Code, NotFoundError


def topic_exists(name: str) -> AlreadyExistsError:
    """For a second topic of a name."""
    return AlreadyExistsError(
        f"topic {name} exists already", hint="choose another name, or use the topic as it is", code=Code.BAD_REQUEST
    )


def no_topic(name: str) -> NotFoundError:
    """For a topic that is not there."""
    return NotFoundError(f"no topic {name}", hint="`pytubemq topic list` shows all", code=Code.NOT_FOUND)


def dangling(topic: str, broker_id: int) -> NotFoundError:
    """For a topic on a Broker of which one is not there."""
    return NotFoundError(
        f"topic {topic} cannot be on broker {broker_id}: the topic or the Broker is not known",
        hint="add the Broker and the topic first, and take a topic from its Brokers before it or they are deleted",
        code=Code.NOT_FOUND,
    )
