"""What Brokers lose for the faults they report, and how many may at once."""

from __future__ import annotations

import pytest

from pytubemq.master.brokers.broker_faults import BrokerFaults
from pytubemq.model.records import ManageStatus

ONLINE, READ, WRITE = ManageStatus.ONLINE, ManageStatus.ONLY_READ, ManageStatus.ONLY_WRITE
OFFLINE, DRAFT = ManageStatus.OFFLINE, ManageStatus.DRAFT


@pytest.mark.parametrize(
    ("configured", "read", "write", "given"),
    [
        (ONLINE, 0, 0, None),
        (ONLINE, 0, -1, READ),
        (ONLINE, -1, 0, OFFLINE),
        (ONLINE, -1, -1, OFFLINE),
        (READ, 0, -1, None),
        (READ, -1, 0, OFFLINE),
        (WRITE, 0, -1, OFFLINE),
        (OFFLINE, -1, -1, None),
        (DRAFT, -1, 0, None),
    ],
)
def test_a_fault_takes_what_it_spoils(configured: ManageStatus, read: int, write: int, given: ManageStatus) -> None:
    faults = BrokerFaults(most=5)
    assert faults.report(1, configured, read=read, write=write, now_ms=7) is given
    assert (1 in faults.forbidden) == (given is not None)
    assert (1 in faults.abnormal) == bool(read or write)


def test_what_is_reported_is_remembered_as_one_number() -> None:
    faults = BrokerFaults(most=5)
    faults.report(1, ONLINE, read=-1, write=-1, now_ms=7)
    faults.report(1, OFFLINE, read=-1, write=0, now_ms=9)
    found = faults.abnormal[1]
    assert (found.value, found.first_ms, found.last_ms) == (-100, 7, 9)


def test_who_may_not_write_is_told_to_stop_that_and_no_more() -> None:
    faults = BrokerFaults(most=5)
    assert faults.stops(1) == (False, False)
    faults.report(1, ONLINE, read=0, write=-1, now_ms=1)
    assert faults.stops(1) == (False, True)
    faults.report(1, READ, read=-1, write=-1, now_ms=2)
    assert faults.stops(1) == (True, True)


def test_so_many_and_no_more_lose_something_at_once() -> None:
    faults = BrokerFaults(most=2)
    given = [faults.report(broker, ONLINE, read=0, write=-1, now_ms=1) for broker in (1, 2, 3)]
    assert given == [READ, READ, None]
    assert faults.stops(3) == (False, False)
    assert faults.report(4, ONLINE, read=1, write=1, now_ms=1) is None, "nor one that says it was stopped already"
    assert faults.stops(4) == (False, False)
    assert faults.release(1)
    assert faults.report(3, ONLINE, read=0, write=-1, now_ms=1) is READ


def test_only_an_operator_lets_go_of_who_lost_something() -> None:
    faults = BrokerFaults(most=5)
    faults.report(1, ONLINE, read=0, write=-1, now_ms=1)
    faults.report(1, READ, read=0, write=0, now_ms=2)
    assert faults.stops(1) == (False, True)
    assert faults.release(1)
    assert not faults.release(1)
    assert (faults.stops(1), faults.abnormal) == ((False, False), {})
