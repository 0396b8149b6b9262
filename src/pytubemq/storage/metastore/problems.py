"""The errors all adapters raise alike."""

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


def no_broker(broker_id: int) -> NotFoundError:
    """For a Broker that is not there."""
    return NotFoundError(
        f"no Broker {broker_id}", hint="start it: it registers itself at the Master", code=Code.NOT_FOUND
    )
