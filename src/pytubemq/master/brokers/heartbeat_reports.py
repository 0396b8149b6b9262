"""Heartbeats of Brokers: what each changes in the picture of its Broker, and in the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.master.brokers.configuration import SyncId
from pytubemq.master.brokers.reported_topics import (
    added_topics,
    check_surplus,
    reported_removals,
    reported_topics,
    surplus_on,
)
from pytubemq.model.limits import MAX_PROBLEM_CHARS, MAX_REPORTED_PROBLEMS, MAX_STRAY_PARTITIONS
from pytubemq.wire.protocol.extensions import Capability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.master.brokers.broker_faults import BrokerFaults
    from pytubemq.master.brokers.broker_run import BrokerRun
    from pytubemq.master.brokers.broker_topics import BrokerTopics, Presence
    from pytubemq.master.brokers.upkeep import BrokerUpkeep
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.topic import TopicConfig
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Call
    from pytubemq.wire.protocol.messages.master import HeartRequestB2M


class HeartbeatReports:
    """Takes in what heartbeats report."""

    def __init__(
        self,
        catalogue: Catalogue,
        clock: Clock,
        presence: Presence,
        topics: BrokerTopics,
        faults: BrokerFaults,
        upkeep: BrokerUpkeep,
    ) -> None:
        self._catalogue = catalogue
        self._clock = clock
        self._presence = presence
        self._topics = topics
        self._faults = faults
        self._upkeep = upkeep

    def record(self, run: BrokerRun, request: HeartRequestB2M) -> bool:
        """Record what a heartbeat says about its Broker; True if what can be produced or consumed may be different.

        Raises:
            FormatError: a text is not in its form, or more partitions are reported than the records explain.
        """
        before = (run.online, run.topics, run.read_status, run.write_status)
        defaults, report, surplus = run.reported_defaults, run.reported_topics, run.surplus
        if request.take_conf_info:
            defaults = request.broker_default_conf_info or ""
            known = report if defaults == run.reported_defaults else {}
            texts = request.broker_topic_set_conf_info
            # before they are read: each topic has a partition
            expected = len(self._catalogue.topics_on(run.broker_id)) + len(known)
            check_surplus(len(texts) - expected)
            report = reported_topics(defaults, texts, known)
            new = added_topics(report, known)
            surplus = surplus_on(self._catalogue, run.broker_id, new, held=run.unknown) + (surplus if known else 0)
            if surplus > MAX_STRAY_PARTITIONS:  # the sum counts what was reported before and is no longer
                surplus = surplus_on(self._catalogue, run.broker_id, report.values(), held=run.unknown)
            check_surplus(surplus)
        self._presence.unheard.discard(run.broker_id)
        run.reported = SyncId(request.cur_broker_conf_id, request.conf_check_sum_id)
        run.manage_status = self._topics.status(run.broker_id)
        run.online = request.broker_online
        run.read_status, run.write_status = request.read_status_rpt, request.write_status_rpt
        run.problems = tuple(problem[:MAX_PROBLEM_CHARS] for problem in request.problems[:MAX_REPORTED_PROBLEMS])
        if run.in_sync:
            self._presence.synced.add(run.broker_id)
            run.overdue = False
        if request.take_conf_info:
            run.reported_topics, run.surplus = report, surplus
            run.topics, run.reported_defaults = _by_name(report), defaults
        return before != (run.online, run.topics, run.read_status, run.write_status)

    def change_records(self, run: BrokerRun, call: Call, request: HeartRequestB2M) -> None:
        """Schedule the changes of records that follow from a heartbeat, unless its Broker may be a mistake."""
        if self._clock.now_s() < run.settled_s:
            return
        if request.take_removed_topic_info:
            self._upkeep.forget_places(run.broker_id, reported_removals(request.removed_topics_info))
        record = self._catalogue.brokers.get(run.broker_id)
        if record is not None and run.web_port not in (None, record.web_port):
            self._upkeep.give_web_port(run.broker_id, run.web_port)
        if record is None or Capability.HEARTBEAT_WAIT in call.connection.capabilities:
            return
        status = self._faults.report(
            run.broker_id,
            record.manage_status,
            read=run.read_status,
            write=run.write_status,
            now_ms=self._clock.wall_ms(),
        )
        if status is not None:
            self._upkeep.give_status(run.broker_id, status)


def _by_name(topics: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
    return {topic.name: topic for topic in topics.values()}
