"""What tasks tell the driver, over a real socket."""

from __future__ import annotations

import threading

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.ids import Address
from pytubemq.spark.source.read.task_reports import MOST_REPORTED, Reports, ReportTo, TaskReport
from tests.support.waiting import until_seen

MASTERS = ClusterAddress((Address("127.0.0.1", 8715),))


def all_told(reports: Reports, count: int) -> list[TaskReport]:
    """What was told, once so much of it is there."""
    until_seen(lambda: len(reports) >= count)
    return reports.take()


def test_what_a_task_tells_arrives_in_as_many_datagrams_as_it_needs() -> None:
    reports = Reports(MASTERS)
    told = [("1:demo:" + str(number), number, 0.5) for number in range(MOST_REPORTED + 1)]
    reports.to.send(told)
    assert sorted(all_told(reports, len(told))) == sorted(told)
    assert reports.take() == []
    reports.close()


def test_only_the_querys_own_tasks_are_believed() -> None:
    reports = Reports(MASTERS)
    ReportTo(reports.to.address, b"guessed").send([("1:demo:0", 1, 1.0)])
    reports.to.send([("1:demo:1", 1, 1.0)])
    assert all_told(reports, 1) == [("1:demo:1", 1, 1.0)]
    assert reports.to.address.host == "127.0.0.1"
    assert "secret" not in repr(reports.to)
    reports.close()


def test_a_task_does_not_mind_that_nobody_listens() -> None:
    reports = Reports(MASTERS)
    reports.close()
    assert not any(thread.name == "tubemq-task-reports" for thread in threading.enumerate())
    reports.to.send([("1:demo:0", 1, 1.0)])
    reports.close()


def test_an_address_that_cannot_be_had_is_told_with_the_option() -> None:
    with pytest.raises(ConfigError, match="slowPartitionAdjustment needs a UDP port"):
        Reports(ClusterAddress((Address("no such host.invalid", 8715),)))
