"""Checks of what a client registers with: its topics, and the size of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.model.limits import MAX_REGISTRATION_TEXT_BYTES, MAX_TOPIC_CHARS, MAX_TOPICS_PER_CLIENT
from pytubemq.model.names import is_plain, shown, unplain
from pytubemq.model.topic import HISTORY_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ITEM_BYTES: Final = 5
"""The longest prefix of a text in a list on the wire, in bytes."""


def check_topics(names: Iterable[str], *, client: str) -> tuple[str, ...]:
    """Return topic names, trimmed, each once, without blank ones. Raises Refused."""
    topics = tuple(dict.fromkeys(stripped for name in names if (stripped := name.strip())))
    if len(topics) > MAX_TOPICS_PER_CLIENT:
        raise Refused(Code.BAD_REQUEST, f"{client} names {len(topics)} topics, {MAX_TOPICS_PER_CLIENT} are allowed")
    for topic in topics:
        if not is_plain(topic):
            raise Refused(Code.BAD_REQUEST, unplain(topic, "topicName"))
    return topics


def check_other_text(size_bytes: int, *lists: Sequence[str], client: str) -> None:
    """Refuse a registration of `size_bytes` whose text outside its lists is too long, in known or unknown fields.

    Raises:
        Refused: 400, it is longer than `MAX_REGISTRATION_TEXT_BYTES`.
    """
    if size_bytes <= MAX_REGISTRATION_TEXT_BYTES:
        return
    listed = sum(len("".join(texts).encode()) + _ITEM_BYTES * len(texts) for texts in lists)
    if size_bytes - listed > MAX_REGISTRATION_TEXT_BYTES:
        raise Refused(
            Code.BAD_REQUEST,
            f"the registration of {client} has {size_bytes - listed} bytes beside its topics, filters and partitions "
            f"(as in jdkVersion or sessionKey), {MAX_REGISTRATION_TEXT_BYTES} are allowed",
        )


def check_produced(names: Iterable[str], *, client: str) -> tuple[str, ...]:
    """Return the topics that a producer may name. Raises Refused."""
    topics = check_topics(names, client=client)
    if HISTORY_TOPIC in topics:
        raise Refused(Code.BAD_REQUEST, f"{HISTORY_TOPIC} is the system's own topic, nothing can be produced to it")
    for topic in topics:
        if len(topic) > MAX_TOPIC_CHARS:
            raise Refused(
                Code.BAD_REQUEST,
                f"topicName {shown(topic)} has {len(topic)} characters, topics have at most {MAX_TOPIC_CHARS}",
            )
    return topics
