"""Requested changes to a topic, or to the defaults of all topics.

The invariant: a change that exists can be applied: its numbers are within bounds, its policy is in normal form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pytubemq.errors import BadRequestError, Code
from pytubemq.model.durability import Durability, parse_durability
from pytubemq.model.limits import MAX_MESSAGE_BYTES, MAX_PARTITIONS_PER_TOPIC
from pytubemq.model.policy import check_delete_policy

DEFAULT: Final = "default"
"""The value that removes a topic's own setting, so that the layer below applies again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """The given changes; `props` are fields of `TopicProps` with their new values, None = use the layer below."""

    props: dict[str, Any]
    max_message_bytes: int | None = None


def topic_change(
    *,
    partitions: int | None = None,
    max_message_bytes: int | None = None,
    delete_policy: str | None = None,
    durability: str | None = None,
) -> TopicChange:
    """Return the requested change; None = stays, and the word `default` = use the layer below.

    Raises:
        BadRequestError: a number is out of its range, or a text is not a policy or not a durability.
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
    """Check that a number is between 1 and `most`. Raises BadRequestError."""
    if not 1 <= value <= most:
        raise BadRequestError(f"{name} is {value}", hint=f"it must be between 1 and {most}", code=Code.BAD_REQUEST)


def _durability(text: str) -> Durability | None:
    return None if _is_default(text) else parse_durability(text)


def _is_default(text: str) -> bool:
    return text.strip().lower() == DEFAULT
