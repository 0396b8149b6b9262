"""Why a group gets nothing of a topic that it reads.

The invariant: every reason is read from the records that the Master itself goes by, so what is told is what holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.master.views import ClosedTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.master.brokers import Brokers
    from pytubemq.master.catalogue import Catalogue


def closed_topics(catalogue: Catalogue, brokers: Brokers, group: str, topics: Iterable[str]) -> list[ClosedTopic]:
    """The topics among `topics` that `group` gets nothing of, in their order."""
    return [
        ClosedTopic(topic=topic, why=why)
        for topic in topics
        if (why := _why(catalogue, brokers, group, topic)) is not None
    ]


def _why(catalogue: Catalogue, brokers: Brokers, group: str, topic: str) -> str | None:
    rule = catalogue.consumers(topic).get(group)
    if rule is not None and not rule.consume_enable:
        reason = f": {rule.disable_csm_rsn}" if rule.disable_csm_rsn else ""
        return f"an administrator has switched off consuming it for this group{reason}"
    record = catalogue.topics.get(topic)
    if rule is None and record is not None and record.enable_auth_control:
        return "only groups that are named may consume it, and this one is not: who registers now is refused"
    if not catalogue.deployed(topic):
        return "it is on no Broker any more"
    if not any(brokers.consumable((topic,))):
        return "no Broker that has it lets consumers read now"
    return None
