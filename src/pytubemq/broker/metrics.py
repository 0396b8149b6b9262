"""The Broker's metrics, each read from state that the Broker keeps anyway.

The invariants: reading changes nothing; topics and groups with their own labels are bounded in number; long work (the
ends of all partitions, the lag of all groups) runs off the event loop.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, Final

from pytubemq.errors import TubeError
from pytubemq.model.limits import MAX_WATCHED_POSITIONS
from pytubemq.model.offset import messages_between
from pytubemq.net.server.server_metrics import server_metrics
from pytubemq.observe.metrics import MOST_LABELS, OTHER, Reading, Shown, Source, Values, counter, gauge, grouped, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytubemq.broker.append.waiters import PartitionKey
    from pytubemq.broker.counters import Traffic
    from pytubemq.broker.state import BrokerState
    from pytubemq.broker.upkeep.retention import RetentionPasses
    from pytubemq.net.server.stats import ServerStats
    from pytubemq.storage.log.partition_reads import Extent


@dataclass(slots=True)
class BrokerFacts:
    """State collected once for all metrics of one scrape. Made on the event loop, read on any thread."""

    state: BrokerState
    server: ServerStats
    topics: Mapping[str, Sequence[int]]
    """Partition ids by topic."""
    registrations: int
    handed_out: Mapping[str, Traffic]
    problems: int
    insecure: bool
    http_expires_s: float | None
    """When the certificate of HTTP expires, in seconds since 1970; None without TLS there."""
    failed: bool
    registered: bool | None
    master_failures: int
    """Heartbeats and registrations that failed."""
    forgotten: int
    """The number of times that the Master no longer knew this Broker."""
    retention: RetentionPasses | None
    free_bytes: Callable[[], int]
    shown: Shown
    extents: dict[PartitionKey, Extent] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()

    def look(self) -> None:
        """Read every partition's extent, from which the others are computed."""
        store = self.state.store
        for topic, partition_ids in self.topics.items():
            for partition_id in partition_ids:
                with contextlib.suppress(TubeError):  # it was removed meanwhile
                    self.extents[topic, partition_id] = store.extent(topic, partition_id)
        self.chosen = self.shown.choose(self._sum(lambda extent: extent.max_position))

    def by_topic(self, read: Callable[[Extent], int]) -> Values:
        """Return a sum over the partitions of each topic."""
        return grouped(self._sum(read), self.chosen)

    def out_by_topic(self, read: Callable[[Traffic], int]) -> Values:
        """Return a sum over each topic's delivered messages."""
        return grouped({topic: read(traffic) for topic, traffic in self.handed_out.items()}, self.chosen)

    def lags(self) -> Values:
        """Return the messages between a group's position and the end, by group and topic."""
        store = self.state.store
        if store.position_count > MAX_WATCHED_POSITIONS:
            return {}
        found: dict[tuple[str, ...], float] = {}
        for (group, topic, partition_id), offset in store.positions().items():
            extent = self.extents.get((topic, partition_id))
            if extent is not None:
                behind = messages_between(max(offset, extent.min_offset), extent.max_offset)
                found[group, topic] = found.get((group, topic), 0) + max(0, behind)
        return _largest(found)

    def expired(self) -> Values:
        """Return the messages that retention removed before they were confirmed, by group and topic."""
        return _largest({name: float(count) for name, count in self.state.expired.by_group().items()})

    def near_losses(self) -> Values:
        """Return the seconds until retention removes messages that a group has not confirmed, by group and topic."""
        near = {} if self.retention is None else self.retention.warnings.near
        soonest = nsmallest(MOST_LABELS, near.items(), key=lambda item: item[1].left_s)
        return {name: one.left_s for name, one in soonest}

    def free(self) -> Values:
        """Return the free space; nothing if the disk does not report it."""
        with contextlib.suppress(OSError):
            return {(): self.free_bytes()}
        return {}

    def kept(self, read: Callable[[RetentionPasses], int]) -> float:
        """Return a count of the retention passes, 0 without them."""
        return 0 if self.retention is None else read(self.retention)

    def readings(self) -> Iterable[Reading]:
        """Return a reading of each metric of a Broker."""
        self.look()
        return [source.reading(self) for source in BROKER_METRICS]

    def _sum(self, read: Callable[[Extent], int]) -> dict[str, float]:
        found: dict[str, float] = dict.fromkeys(self.topics, 0)
        for (topic, _), extent in self.extents.items():
            found[topic] += read(extent)
        return found


def _largest(found: dict[tuple[str, ...], float]) -> Values:
    """Return the largest values by group and topic, and the sum of the others."""
    if len(found) <= MOST_LABELS:
        return found
    most = dict(nlargest(MOST_LABELS, found.items(), key=lambda item: item[1]))
    most[OTHER, OTHER] = sum(found.values()) - sum(most.values())
    return most


def _by_code(codes: Mapping[int, int]) -> Values:
    return {(str(code),): count for code, count in sorted(dict(codes).items())}


_TOPIC: Final = ("topic",)
_CODE: Final = ("code",)

BROKER_METRICS: tuple[Source[BrokerFacts], ...] = (
    gauge("broker_insecure", "1 if the settings contain insecure = true", lambda f: f.insecure),
    gauge("broker_topics", "Topics served", lambda f: len(f.topics)),
    gauge("broker_partitions", "Partitions served", lambda f: len(f.extents)),
    counter(
        "broker_topic_messages_in_total",
        "Messages appended to a topic since its creation, across restarts",
        lambda f: f.by_topic(lambda extent: messages_between(0, extent.max_offset)),
        _TOPIC,
    ),
    counter(
        "broker_topic_bytes_in_total",
        "Bytes appended to a topic's logs since its creation, record headers included",
        lambda f: f.by_topic(lambda extent: extent.max_position),
        _TOPIC,
    ),
    counter(
        "broker_topic_messages_out_total",
        "Messages of a topic delivered to consumers and readers",
        lambda f: f.out_by_topic(lambda traffic: traffic.messages),
        _TOPIC,
    ),
    counter(
        "broker_topic_bytes_out_total",
        "Bytes of a topic delivered to consumers and readers, as stored",
        lambda f: f.out_by_topic(lambda traffic: traffic.payload_bytes),
        _TOPIC,
    ),
    gauge(
        "broker_topic_messages",
        "Messages of a topic currently stored",
        lambda f: f.by_topic(lambda extent: messages_between(extent.min_offset, extent.max_offset)),
        _TOPIC,
    ),
    gauge(
        "broker_topic_bytes",
        "Bytes of a topic currently stored",
        lambda f: f.by_topic(lambda extent: extent.max_position - extent.min_position),
        _TOPIC,
    ),
    counter(
        "broker_sends_refused_total",
        "Send requests answered with a code other than 200; a batch with several codes counts under its first",
        lambda f: _by_code(f.state.counters.refused_sends),
        _CODE,
    ),
    counter("broker_fetches_total", "Fetch requests answered with messages", lambda f: f.state.counters.fetches),
    counter(
        "broker_fetches_refused_total",
        "Fetch requests answered with an error code; 404 is the end of a partition",
        lambda f: _by_code(f.state.counters.refused_fetches),
        _CODE,
    ),
    counter("broker_fetches_slowed_total", "Fetch requests throttled by flow control", lambda f: f.state.flow.refusals),
    gauge(
        "broker_fetches_waiting",
        "Fetch requests waiting at the end of their partition (long poll)",
        lambda f: len(f.state.waiters),
    ),
    gauge("broker_reads_pending", "Fetch requests waiting for the disk", lambda f: f.state.pending_reads),
    counter("broker_journal_blocks_total", "Journal writes", lambda f: f.state.store.stats.blocks),
    counter("broker_journal_bytes_total", "Bytes written to the journal", lambda f: f.state.store.stats.journal_bytes),
    times(
        "broker_journal_write_seconds",
        "Duration of a journal write, including its flush where durability requires one",
        lambda f: f.state.path.stats.write_s,
    ),
    counter("broker_journal_failures_total", "Journal writes that failed", lambda f: f.state.path.stats.failed_writes),
    counter(
        "broker_disk_full_refusals_total",
        "Journal writes refused because the disk was full",
        lambda f: f.state.store.stats.full_refusals,
    ),
    counter(
        "broker_appended_messages_total",
        "Messages written to the journal since the start",
        lambda f: f.state.store.stats.messages,
    ),
    counter(
        "broker_sends_expired_total",
        "Send requests dropped because their caller timed out",
        lambda f: f.state.path.stats.expired,
    ),
    counter(
        "broker_sends_overflown_total",
        "Send requests refused because the append queue was full",
        lambda f: f.state.path.stats.overflows,
    ),
    gauge(
        "broker_staged_bytes",
        "Bytes of messages waiting to be written to the journal",
        lambda f: f.state.path.staged_bytes,
    ),
    gauge(
        "broker_unapplied_bytes",
        "Bytes of messages in the journal that are not yet in their partition's log",
        lambda f: f.state.store.unapplied_bytes,
    ),
    counter(
        "broker_applied_bytes_total",
        "Bytes moved from the journal to the partitions' logs",
        lambda f: f.state.store.applied_bytes,
    ),
    counter("broker_checkpoints_total", "Checkpoints written", lambda f: f.state.store.checkpoints),
    gauge("broker_log_files_open", "Open log and index files", lambda f: f.state.store.open_files),
    counter(
        "broker_skipped_messages_total",
        "Messages lost to damage that fetches skipped",
        lambda f: f.state.counters.skipped_messages,
    ),
    counter(
        "broker_fenced_messages_total",
        "Messages known to be lost to damage, including those found before the start",
        lambda f: f.state.store.stats.fenced_messages,
    ),
    counter(
        "broker_repeats_dropped_total",
        "Duplicate messages from producers' retries, not stored again",
        lambda f: f.state.store.stats.repeats,
    ),
    counter(
        "broker_forgotten_producers_total",
        "Producer ids that a partition evicted from its full table; it no longer detects their duplicates",
        lambda f: f.state.store.stats.forgotten_windows,
    ),
    counter("broker_retention_passes_total", "Retention passes", lambda f: f.kept(lambda h: h.passes)),
    counter(
        "broker_retention_skipped_total",
        "Retention passes skipped because the clock had jumped",
        lambda f: f.kept(lambda h: h.skipped),
    ),
    counter(
        "broker_retention_dropped_segments_total",
        "Log files removed by retention, by age or by size",
        lambda f: f.kept(lambda h: h.dropped_segments),
    ),
    counter(
        "broker_retention_dropped_messages_total",
        "Messages removed by retention",
        lambda f: f.kept(lambda h: h.dropped_messages),
    ),
    counter(
        "broker_retention_dropped_bytes_total",
        "Bytes removed by retention",
        lambda f: f.kept(lambda h: h.dropped_bytes),
    ),
    gauge("broker_disk_free_bytes", "Free space on the data directory's disk", lambda f: f.free()),
    gauge(
        "broker_disk_full",
        "1 while send requests are refused because the disk is full",
        lambda f: f.state.path.errors.full is not None,
    ),
    gauge("broker_failed", "1 once no message is accepted until a restart", lambda f: f.failed),
    gauge("broker_problems", "Problems reported by the Broker's health", lambda f: f.problems),
    gauge(
        "broker_registered",
        "1 while the Broker is registered with the Master",
        lambda f: {} if f.registered is None else {(): f.registered},
    ),
    counter(
        "broker_master_failures_total",
        "Failed registrations and heartbeats at the Master",
        lambda f: f.master_failures,
    ),
    counter("broker_forgotten_total", "Times that the Master no longer knew the Broker", lambda f: f.forgotten),
    counter(
        "broker_access_refused_total",
        "RPC requests that access control refused, by reason",
        lambda f: {(reason.value,): count for reason, count in sorted(f.state.access.refusals.refused.items())},
        ("reason",),
    ),
    counter(
        "broker_access_would_refuse_total",
        "RPC requests that access control served because it is permissive, by the reason to refuse them; one for each "
        "client, topic and 30 seconds of a connection",
        lambda f: {(reason.value,): count for reason, count in sorted(f.state.access.refusals.would_refuse.items())},
        ("reason",),
    ),
    *server_metrics("broker"),
    counter("broker_calls_total", "RPC requests", lambda f: f.server.calls),
    counter("broker_calls_failed_total", "RPC requests answered with an exception", lambda f: f.server.failed),
    counter(
        "broker_calls_late_total", "Responses dropped because their callers had timed out", lambda f: f.server.late
    ),
    gauge("broker_consumers", "Partitions registered by consumers", lambda f: f.registrations),
    counter(
        "broker_consumers_expired_total",
        "Consumer registrations that expired",
        lambda f: f.state.counters.expired_registrations,
    ),
    gauge("broker_positions", "Committed offsets of groups stored", lambda f: f.state.store.position_count),
    gauge(
        "broker_group_lag_messages",
        f"Messages of a topic on this Broker that a group has not confirmed: the {MOST_LABELS:,} largest; not exported "
        f"with more than {MAX_WATCHED_POSITIONS:,} positions",
        lambda f: f.lags(),
        ("group", "topic"),
    ),
    counter(
        "broker_expired_messages_total",
        "Messages that retention removed before the group had confirmed them, counted when its consumer skips them: "
        f"the {MOST_LABELS:,} largest",
        lambda f: f.expired(),
        ("group", "topic"),
    ),
    gauge(
        "broker_group_retention_left_seconds",
        "Time until retention removes messages of a topic that a group has not confirmed: the "
        f"{MOST_LABELS:,} groups with the least time left, of those within a tenth of the topic's retention; as of the "
        "last retention pass",
        lambda f: f.near_losses(),
        ("group", "topic"),
    ),
)
"""All metrics of a Broker, in the order of the output."""
