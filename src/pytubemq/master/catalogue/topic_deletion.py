"""Which topics were deleted as a whole, and what goes with the last place of one.

The invariants: that deletion was asked for is in the records of the places themselves, so it outlives the Master; the
topic's record goes in the same write as its last place, so there is no time at which only half of it is done. Places
that an operator removes one by one leave the topic's record, as in the original.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.model.records import TopicStatus

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.records import DeployRecord, Record, TopicRecord

DELETED_BY = "jsonApi_topic_delete"
"""Who removed the places of a topic that was deleted as a whole; the mark of one. Nobody who removes single places may
give this name; it is one the webapi takes otherwise, so a backup of such a place can be restored."""


def is_deleted(place: DeployRecord) -> bool:
    """Whether a place goes because its topic was deleted as a whole."""
    return place.topic_status.removed and place.stamp.modify_user == DELETED_BY


def deleted(place: DeployRecord, now_ms: int) -> DeployRecord:
    """A place of a topic that is deleted as a whole, as it becomes at `now_ms` (since 1970)."""
    return replace(
        place,
        topic_status=max(place.topic_status, TopicStatus.SOFT_REMOVED),
        props=replace(place.props, accept_publish=False, accept_subscribe=False),
        stamp=replace(place.stamp, modify_user=DELETED_BY, modify_ms=now_ms),
    )


def with_records(catalogue: Catalogue, places: Collection[DeployRecord]) -> list[Record]:
    """Places that go, all of one Broker, and the records of deleted topics whose last ones they are.

    Call it with the catalogue's lock held.
    """
    last = [place.topic for place in places if is_deleted(place) and len(catalogue.deployed(place.topic)) == 1]
    records = [free_record(catalogue, topic) for topic in last]
    return [*places, *(record for record in records if record is not None)]


def free_record(catalogue: Catalogue, topic: str) -> TopicRecord | None:
    """The record of a topic if it may go: one that controls access stays, as rules must not be lost unseen."""
    record = catalogue.topics.get(topic)
    if record is None or record.enable_auth_control or catalogue.consumers(topic):
        return None
    return record
