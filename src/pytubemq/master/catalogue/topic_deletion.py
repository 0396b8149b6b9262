"""Topics that were deleted as a whole, and the records that go with their last deployment.

The invariants: the records of the deployments themselves say that the topic was deleted, so the deletion outlives the
Master; the topic's record goes in the same write as its last deployment, so it is never half done. Deployments that an
operator removes one by one leave the topic's record, as in the original.
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
"""The user name on the deployments of a topic that was deleted as a whole. Nobody who removes single deployments may
give this name; the webapi accepts it otherwise, so a backup of such a deployment can be restored."""


def is_deleted(place: DeployRecord) -> bool:
    """True if a deployment is removed because its topic was deleted as a whole."""
    return place.topic_status.removed and place.stamp.modify_user == DELETED_BY


def deleted(place: DeployRecord, now_ms: int) -> DeployRecord:
    """Return a deployment as it becomes when its topic is deleted as a whole at `now_ms` (since 1970)."""
    return replace(
        place,
        topic_status=max(place.topic_status, TopicStatus.SOFT_REMOVED),
        props=replace(place.props, accept_publish=False, accept_subscribe=False),
        stamp=replace(place.stamp, modify_user=DELETED_BY, modify_ms=now_ms),
    )


def with_records(catalogue: Catalogue, places: Collection[DeployRecord]) -> list[Record]:
    """Return deployments to delete, all of one Broker, with the records of deleted topics that have no others.

    Call it with the catalogue's lock held.
    """
    last = [place.topic for place in places if is_deleted(place) and len(catalogue.deployed(place.topic)) == 1]
    records = [free_record(catalogue, topic) for topic in last]
    return [*places, *(record for record in records if record is not None)]


def free_record(catalogue: Catalogue, topic: str) -> TopicRecord | None:
    """Return a topic's record if it may go: one that controls access stays, as rules must not be lost unseen."""
    record = catalogue.topics.get(topic)
    if record is None or record.enable_auth_control or catalogue.consumers(topic):
        return None
    return record
