"""Looks through a store for segments that its topics' policies keep no longer.

The invariant: a partition whose files cannot be read loses nothing, and keeps nobody else from being looked at.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytubemq.errors import StorageError
from pytubemq.storage.files import LostFileError
from pytubemq.storage.retention import surplus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.policy import RetentionPolicy
    from pytubemq.storage.partition_log import PartitionLog
    from pytubemq.storage.record import PartitionKey
    from pytubemq.storage.segment_reader import SegmentReader

_logger = logging.getLogger(__name__)


def choose(
    partitions: Mapping[PartitionKey, PartitionLog],
    reader: SegmentReader,
    retention: Mapping[str, RetentionPolicy],
    now_ms: int,
) -> dict[PartitionKey, int]:
    """How many of its oldest segments each partition has too many. Reads the disk where a segment's times are not known
    yet; for the thread that applies."""
    found: dict[PartitionKey, int] = {}
    for key, log in list(partitions.items()):
        limits = retention.get(log.topic)
        if limits is None or limits == (None, None) or not log.segments or log.problem is not None:
            continue
        try:
            pieces = log.pieces(reader)
        except (StorageError, LostFileError) as error:  # readers are told, and another pass comes
            _logger.warning("%s:%d keeps what is too old: %s", log.topic, log.partition_id, error)
            continue
        if count := surplus(pieces, log.end_position - log.applied_position, limits, now_ms):
            found[key] = count
    return found
