"""The Broker's figures: how each is read off what the Broker keeps anyway.

The invariants: reading changes nothing; topics and groups that are told apart are bounded in number; what takes long
(the ends of all partitions, the lag of all groups) is looked at off the event loop.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, Final

from pytubemq.errors import TubeError
from pytubemq.model.limits import MAX_WATCHED_POSITIONS
from pytubemq.model.offset import messages_between
from pytubemq.observe.metrics import MOST_LABELS, OTHER, Reading, Shown, Source, Values, counter, gauge, grouped, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytubemq.broker.counters import Traffic
    from pytubemq.broker.housekeeping import Housekeeping
    from pytubemq.broker.state import BrokerState
    from pytubemq.broker.waiters import PartitionKey
    from pytubemq.net.server import ServerStats
    from pytubemq.storage.partition_reads import Extent


@dataclass(slots=True)
class BrokerFacts:
    """What is looked at once for all figures of one reading. Made on the event loop, read on any thread."""

    state: BrokerState
    server: ServerStats
    topics: Mapping[str, Sequence[int]]
    """Partition ids by topic."""
    holds: int
    handed_out: Mapping[str, Traffic]
    problems: int
    insecure: bool
    failed: bool
    registered: bool | None
    master_failures: int
    """Heartbeats and registrations that failed."""
    forgotten: int
    """How often the Master did not know this Broker any more."""
    housekeeping: Housekeeping | None
    free_bytes: Callable[[], int]
    shown: Shown
    extents: dict[PartitionKey, Extent] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()

    def look(self) -> None:
        """Look at every partition's ends; the rest is read from there."""
        store = self.state.store
        for topic, partition_ids in self.topics.items():
            for partition_id in partition_ids:
                with contextlib.suppress(TubeError):  # it was removed meanwhile
                    self.extents[topic, partition_id] = store.extent(topic, partition_id)
        self.chosen = self.shown.choose(self._sum(lambda extent: extent.max_position))

    def by_topic(self, read: Callable[[Extent], int]) -> Values:
        """A figure of all partitions of each topic."""
        return grouped(self._sum(read), self.chosen)

    def out_by_topic(self, read: Callable[[Traffic], int]) -> Values:
        """A figure of what was handed out of each topic."""
        return grouped({topic: read(traffic) for topic, traffic in self.handed_out.items()}, self.chosen)

    def lags(self) -> Values:
        """Messages between where a group is and the end, by group and topic."""
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
        near = {} if self.housekeeping is None else self.housekeeping.watch.near
        soonest = nsmallest(MOST_LABELS, near.items(), key=lambda item: item[1].left_s)
        return {name: one.left_s for name, one in soonest}

    def free(self) -> Values:
        """Free space; nothing if the disk does not tell."""
        with contextlib.suppress(OSError):
            return {(): self.free_bytes()}
        return {}

    def kept(self, read: Callable[[Housekeeping], int]) -> float:
        """A figure of retention."""
        return 0 if self.housekeeping is None else read(self.housekeeping)

    def readings(self) -> Iterable[Reading]:
        """All figures of a Broker."""
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
    gauge("broker_insecure", "1 where the settings have insecure = true", lambda f: f.insecure),
    gauge("broker_topics", "Topics served", lambda f: len(f.topics)),
    gauge("broker_partitions", "Partitions served", lambda f: len(f.extents)),
    counter(
        "broker_topic_messages_in_total",
        "Messages appended to a topic since it was made, over restarts",
        lambda f: f.by_topic(lambda extent: messages_between(0, extent.max_offset)),
        _TOPIC,
    ),
    counter(
        "broker_topic_bytes_in_total",
        "Bytes that they take in its logs, heads included",
        lambda f: f.by_topic(lambda extent: extent.max_position),
        _TOPIC,
    ),
    counter(
        "broker_topic_messages_out_total",
        "Messages of a topic handed out to consumers and readers",
        lambda f: f.out_by_topic(lambda traffic: traffic.messages),
        _TOPIC,
    ),
    counter(
        "broker_topic_bytes_out_total",
        "Bytes of these as they are stored",
        lambda f: f.out_by_topic(lambda traffic: traffic.payload_bytes),
        _TOPIC,
    ),
    gauge(
        "broker_topic_messages",
        "Messages of a topic that are kept now",
        lambda f: f.by_topic(lambda extent: messages_between(extent.min_offset, extent.max_offset)),
        _TOPIC,
    ),
    gauge(
        "broker_topic_bytes",
        "Bytes that they take",
        lambda f: f.by_topic(lambda extent: extent.max_position - extent.min_position),
        _TOPIC,
    ),
    counter(
        "broker_sends_refused_total",
        "Sends answered with another code than 200; a batch with several codes counts as its first",
        lambda f: _by_code(f.state.counters.refused_sends),
        _CODE,
    ),
    counter("broker_fetches_total", "Fetches answered with what there was", lambda f: f.state.counters.fetches),
    counter(
        "broker_fetches_refused_total",
        "Fetches answered with a code; 404 is the end of a partition",
        lambda f: _by_code(f.state.counters.refused_fetches),
        _CODE,
    ),
    counter("broker_fetches_slowed_total", "Fetches refused by flow control", lambda f: f.state.flow.refusals),
    gauge("broker_fetches_waiting", "Fetches held at the end of their partition", lambda f: len(f.state.waiters)),
    gauge("broker_reads_pending", "Fetches that wait for the disk", lambda f: f.state.pending_reads),
    counter("broker_journal_blocks_total", "Writes of the journal", lambda f: f.state.store.stats.blocks),
    counter("broker_journal_bytes_total", "Bytes written to it", lambda f: f.state.store.stats.journal_bytes),
    times(
        "broker_journal_write_seconds",
        "One write of the journal, with its flush where one was promised",
        lambda f: f.state.path.stats.write_s,
    ),
    counter(
        "broker_journal_failures_total", "Writes of the journal that failed", lambda f: f.state.path.stats.failed_writes
    ),
    counter(
        "broker_disk_full_refusals_total",
        "Writes of the journal refused for want of space",
        lambda f: f.state.store.stats.full_refusals,
    ),
    counter(
        "broker_appended_messages_total", "Messages written since the start", lambda f: f.state.store.stats.messages
    ),
    counter(
        "broker_sends_expired_total", "Sends dropped because their caller gave up", lambda f: f.state.path.stats.expired
    ),
    counter(
        "broker_sends_overflown_total", "Sends refused because too much waited", lambda f: f.state.path.stats.overflows
    ),
    gauge("broker_staged_bytes", "Messages that wait for the journal", lambda f: f.state.path.staged_bytes),
    gauge(
        "broker_unapplied_bytes",
        "Messages in the journal that are not in their partition's log yet",
        lambda f: f.state.store.unapplied_bytes,
    ),
    counter("broker_applied_bytes_total", "Bytes moved into partitions' logs", lambda f: f.state.store.applied_bytes),
    counter("broker_checkpoints_total", "Checkpoints made", lambda f: f.state.store.checkpoints),
    gauge("broker_log_files_open", "Log and index files open", lambda f: f.state.store.open_files),
    counter(
        "broker_skipped_messages_total",
        "Messages lost to damage that readers were led past",
        lambda f: f.state.counters.skipped_messages,
    ),
    counter(
        "broker_fenced_messages_total",
        "Messages found to be lost to damage, those known from before the start included",
        lambda f: f.state.store.stats.fenced_messages,
    ),
    counter(
        "broker_repeats_dropped_total",
        "Messages that producers sent again and that were not stored again",
        lambda f: f.state.store.stats.repeats,
    ),
    counter(
        "broker_forgotten_producers_total",
        "Producers that a partition let go of for want of room; it would not know a repeat of theirs",
        lambda f: f.state.store.stats.forgotten_windows,
    ),
    counter("broker_retention_passes_total", "Looks for old messages", lambda f: f.kept(lambda h: h.passes)),
    counter(
        "broker_retention_skipped_total", "Looks not made, the clock had jumped", lambda f: f.kept(lambda h: h.skipped)
    ),
    counter(
        "broker_retention_dropped_segments_total",
        "Log files let go of for their age or for want of their topic's space",
        lambda f: f.kept(lambda h: h.dropped_segments),
    ),
    counter(
        "broker_retention_dropped_messages_total", "Messages in these", lambda f: f.kept(lambda h: h.dropped_messages)
    ),
    counter("broker_retention_dropped_bytes_total", "Bytes of these", lambda f: f.kept(lambda h: h.dropped_bytes)),
    gauge("broker_disk_free_bytes", "Free space where the data directory lies", lambda f: f.free()),
    gauge("broker_disk_full", "1 while sends are refused for want of space", lambda f: f.state.path.full is not None),
    gauge("broker_failed", "1 once no message is taken before a restart", lambda f: f.failed),
    gauge("broker_problems", "Problems that its health names", lambda f: f.problems),
    gauge(
        "broker_registered", "1 while the Master knows it", lambda f: {} if f.registered is None else {(): f.registered}
    ),
    counter(
        "broker_master_failures_total",
        "Heartbeats and registrations at the Master that failed",
        lambda f: f.master_failures,
    ),
    counter("broker_forgotten_total", "Times that the Master did not know it any more", lambda f: f.forgotten),
    gauge("broker_connections", "Connections open", lambda f: f.server.connections),
    counter("broker_connections_accepted_total", "Connections accepted", lambda f: f.server.accepted),
    counter("broker_connections_refused_total", "Connections refused, too many were open", lambda f: f.server.refused),
    counter("broker_connection_faults_total", "Connections closed for what came over them", lambda f: f.server.faults),
    counter(
        "broker_slow_readers_total",
        "Connections closed because their peers did not read their responses",
        lambda f: f.server.slow_readers,
    ),
    counter(
        "broker_connections_made_room_total",
        "Connections closed to make room for a new one, because they were unused or silent for long",
        lambda f: f.server.made_room,
    ),
    gauge("broker_unsent_bytes", "Bytes of responses that peers have not taken", lambda f: f.server.unsent_bytes),
    counter("broker_calls_total", "Requests over the protocol", lambda f: f.server.calls),
    counter("broker_calls_failed_total", "Requests answered with an exception", lambda f: f.server.failed),
    counter("broker_calls_late_total", "Answers dropped, their callers had given up", lambda f: f.server.late),
    gauge("broker_consumers", "Partitions held by consumers", lambda f: f.holds),
    counter("broker_consumers_expired_total", "Holds that ran out", lambda f: f.state.counters.expired_holds),
    gauge("broker_positions", "Positions of groups kept", lambda f: f.state.store.position_count),
    gauge(
        "broker_group_lag_messages",
        f"Messages that a group has yet to confirm in a topic of this Broker: the {MOST_LABELS:,} largest; none where "
        f"there are more than {MAX_WATCHED_POSITIONS:,} positions",
        lambda f: f.lags(),
        ("group", "topic"),
    ),
    counter(
        "broker_expired_messages_total",
        "Messages that retention removed before the group had confirmed them, counted when its consumer is led past "
        f"them: the {MOST_LABELS:,} largest",
        lambda f: f.expired(),
        ("group", "topic"),
    ),
    gauge(
        "broker_group_retention_left_seconds",
        "Time until retention removes messages of a topic that a group has not confirmed: the "
        f"{MOST_LABELS:,} groups with the least, of those within a tenth of what the topic keeps; as of the last look "
        "for old messages",
        lambda f: f.near_losses(),
        ("group", "topic"),
    ),
)
"""Every figure of a Broker, in the order it is told."""
