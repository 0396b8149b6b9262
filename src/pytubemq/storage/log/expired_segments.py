"""The search of a store for segments that its topics' policies no longer keep.

The invariant: a partition whose files cannot be read loses nothing, and keeps nobody else from being looked at.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.errors import StorageError, one_line
from pytubemq.storage.disk.file_cache import LostFileError
from pytubemq.storage.log.retention import Expiring, ExpiringPartition, expiring_segments, growth_of, surplus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.model.policy import RetentionPolicy
    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.log.partition_log import PartitionLog
    from pytubemq.storage.log.retention import ExpiringSegment
    from pytubemq.storage.log.segment_reader import SegmentReader

_logger = logging.getLogger(__name__)


class Surplus(NamedTuple):
    """The segments of all partitions that retention removes now or soon."""

    counts: dict[PartitionKey, int]
    """Number of oldest segments to remove, by partition."""
    expiring: dict[PartitionKey, ExpiringPartition]
    """Messages that expire soon, by partition."""


def choose(
    partitions: Mapping[PartitionKey, PartitionLog],
    reader: SegmentReader,
    retention: Mapping[str, RetentionPolicy],
    now_ms: int,
    *,
    ahead_s: float | None = None,
) -> Surplus:
    """Return what is removed now and, with `ahead_s`, what expires soon, at least that long before. Reads the disk if a
    segment's times are unknown; for the applier's thread."""
    found = Surplus({}, {})
    # A copy, because other threads make partitions meanwhile.
    for key, log in list(partitions.items()):
        limits = retention.get(log.topic)
        # Of a partition whose files cannot be used nothing is known for sure, so nothing of it goes.
        if limits is None or limits == (None, None) or not log.segments or log.problem is not None:
            continue
        try:
            pieces = log.pieces(reader)
        except (StorageError, LostFileError) as error:  # readers get the error, and another pass comes
            _logger.warning(
                "%s:%d keeps messages beyond its retention: %s", log.topic, log.partition_id, one_line(error)
            )
            continue
        # Not in a segment yet: it counts for the size, and cannot go before it is applied.
        tail_bytes = log.end_position - log.applied_position
        if count := surplus(pieces, tail_bytes, limits, now_ms):
            found.counts[key] = count
        if ahead_s is None:
            continue
        if soon := expiring_segments(pieces[count:], tail_bytes, limits, now_ms, ahead_s=ahead_s):
            # Only where something goes soon: it says in what time the bytes that are left will be used up.
            grows = growth_of(pieces, tail_bytes, now_ms, ahead_s=ahead_s)
            found.expiring[key] = _expiring(log, len(pieces), count, soon)._replace(bytes_per_s=grows)
    return found


def _expiring(log: PartitionLog, looked_at: int, count: int, soon: Sequence[ExpiringSegment]) -> ExpiringPartition:
    # Without what was begun since the look; only the looked-at ones have facts.
    segments = log.segments[:looked_at]
    ends = [*(segment.base_ordinal for segment in segments[1:]), log.applied_ordinal]
    parts = tuple(Expiring(ends[count + one.number], one.left_s, one.left_bytes) for one in soon)
    return ExpiringPartition(segments[count].base_ordinal, log.end_position, parts)
