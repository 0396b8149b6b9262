"""What is to become different about a topic, or about the defaults of all topics: read from what somebody asked for.

The invariant: a change that exists can be made: its numbers are within bounds, its policy is in normal form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pytubemq.errors import BadRequestError, Code
from pytubemq.model.durability import Durability, parse_durability
from pytubemq.model.limits import MAX_MESSAGE_BYTES, MAX_PARTITIONS_PER_TOPIC
from pytubemq.model.policy import check_delete_policy

DEFAULT: Final = "default"
"""The word with which a topic goes back to what the layer below says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """What was given; `props` are fields of `TopicProps` with their new values, None = as the layer below says."""

    props: dict[str, Any]
    max_message_bytes: int | None = None


def topic_change(
    *,
    partitions: int | None = None,
    max_message_bytes: int | None = None,
    delete_policy: str | None = None,
    durability: str | None = None,
) -> TopicChange:
    """A change as it was asked for; None = stays, and the word `default` = as the layer below says.

    Raises:
        BadRequestError: a number is out of its range, or a text is no policy or no durability.
    """
    props: dict[str, Any] = {}
    if partitions is not None:
        check_range("partitions", partitions, MAX_PARTITIONS_PER_TOPIC)
        props["num_partitions"] = partitions
    if max_message_bytes is not None:
        check_range("max_message_bytes", max_message_bytes, MAX_MESSAGE_BYTES)
    if delete_policy is not None:
        props["delete_policy"] = None if _is_default(delete_policy) else check_delete_policy(delete_policy)
    if durability is not None:
        props["durability"] = _durability(durability)
    return TopicChange(props=props, max_message_bytes=max_message_bytes)


def check_range(name: str, value: int, most: int) -> None:
    """A number from 1 on. Raises BadRequestError."""
    if not 1 <= value <= most:
        raise BadRequestError(f"{name} is {value}", hint=f"it must be between 1 and {most}", code=Code.BAD_REQUEST)


def _durability(text: str) -> Durability | None:
    return None if _is_default(text) else parse_durability(text)


def _is_default(text: str) -> bool:
    return text.strip().lower() == DEFAULT
