"""Settings of topics at a Broker that registers, compared with the records: older metadata may have been put back.

The invariant: the records win, and a setting that changes for it is logged with its old and new value.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import REPORT_SLICE
from pytubemq.model.names import escaped
from pytubemq.model.policy import original_form
from pytubemq.wire.text.configuration import parse_topic_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.topic import TopicConfig
    from pytubemq.wire.protocol.messages.master import RegisterRequestB2M

logger = logging.getLogger(__name__)

_MOST_NAMED: Final = 8
"""Topics in one log line; the others are counted."""
_MOST_CHARS: Final = 100
"""Text of one setting in the log, since a peer has sent it."""


async def log_changes(
    request: RegisterRequestB2M, broker_id: int, report: Mapping[str, TopicConfig], catalogue: Catalogue
) -> None:
    """Log settings in force at a Broker that are not those of the records; slices between which the loop runs.

    Raises:
        FormatError: a string is not in the form of the protocol.
    """
    durability = parse_topic_values(request.held_durability, "a topic's durability")
    retention = parse_topic_values(request.held_retention, "a topic's retention")
    changes: list[str] = []
    count = 0
    for number, topic in enumerate(report.values(), 1):
        if number % REPORT_SLICE == 0:
            await asyncio.sleep(0)
        deploy = catalogue.deployed(topic.name).get(broker_id)
        if deploy is None or deploy.topic_status.removed:
            continue
        record = catalogue.config(deploy)
        if differing := _differing(topic, retention.get(topic.name), durability.get(topic.name), record):
            count += 1
            if count <= _MOST_NAMED:
                changes.append(f"{topic.name}: {', '.join(differing)}")
    if changes:
        logger.warning(
            "broker %d comes with other settings than the records have, as after a change while it was away, or after "
            "older metadata was put back; those of the records are in force now: %s%s",
            broker_id,
            "; ".join(changes),
            f"; and {count - _MOST_NAMED} more topics" if count > _MOST_NAMED else "",
        )


def _differing(topic: TopicConfig, policy: str | None, durability: str | None, record: TopicConfig) -> list[str]:
    """Return the settings of a reported topic that its record has otherwise, old and new."""
    own = "the Broker's own"
    held = policy or topic.delete_policy
    if policy is None and held == original_form(record.delete_policy):
        held = record.delete_policy  # a Broker of the original knows no more of it
    pairs = {
        "partitions": (topic.partitions, record.partitions),
        "stores": (topic.stores, record.stores),
        "retention": (held, record.delete_policy),
        "durability": (durability or own, own if record.durability is None else record.durability.value),
    }
    return [
        f"{word} {escaped(str(before)[:_MOST_CHARS])} becomes {after}"
        for word, (before, after) in pairs.items()
        if before != after
    ]
