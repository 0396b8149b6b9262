"""The errors all adapters raise alike, and those that the Master raises about its records."""

from __future__ import annotations

from pytubemq.errors import Code, NotFoundError


def dangling(topic: str, broker_id: int) -> NotFoundError:
    """Return the error for a topic on a Broker of which one does not exist."""
    return NotFoundError(
        f"topic {topic} cannot be on broker {broker_id}: the topic or the Broker is not known",
        hint="add the Broker and the topic first; to delete either, remove the topic from the Broker first",
        code=Code.NOT_FOUND,
    )
