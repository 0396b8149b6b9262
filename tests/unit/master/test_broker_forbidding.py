"""What Brokers lose for the faults they report, and how many may at once."""

from __future__ import annotations

import pytest

from pytubemq.master.broker_forbidding import Forbidding
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
    rooms = Forbidding(most=5)
    assert rooms.report(1, configured, read=read, write=write, now_ms=7) is given
    assert (1 in rooms.forbidden) == (given is not None)
    assert (1 in rooms.abnormal) == bool(read or write)


def test_what_is_reported_is_remembered_as_one_number() -> None:
    rooms = Forbidding(most=5)
    rooms.report(1, ONLINE, read=-1, write=-1, now_ms=7)
    rooms.report(1, OFFLINE, read=-1, write=0, now_ms=9)
    found = rooms.abnormal[1]
    assert (found.value, found.first_ms, found.last_ms) == (-100, 7, 9)


def test_who_may_not_write_is_told_to_stop_that_and_no_more() -> None:
    rooms = Forbidding(most=5)
    assert rooms.stops(1) == (False, False)
    rooms.report(1, ONLINE, read=0, write=-1, now_ms=1)
    assert rooms.stops(1) == (False, True)
    rooms.report(1, READ, read=-1, write=-1, now_ms=2)
    assert rooms.stops(1) == (True, True)


def test_so_many_and_no_more_lose_something_at_once() -> None:
    rooms = Forbidding(most=2)
    given = [rooms.report(broker, ONLINE, read=0, write=-1, now_ms=1) for broker in (1, 2, 3)]
    assert given == [READ, READ, None]
    assert rooms.stops(3) == (False, False)
    assert rooms.report(4, ONLINE, read=0, write=1, now_ms=1) is READ, (
        "one that was stopped already is beside the limit"
    )
    assert rooms.release(1)
    assert rooms.report(3, ONLINE, read=0, write=-1, now_ms=1) is None, "the one beside the limit counts against it"
    assert rooms.release(4)
    assert rooms.report(3, ONLINE, read=0, write=-1, now_ms=1) is READ


def test_only_an_operator_lets_go_of_who_lost_something() -> None:
    rooms = Forbidding(most=5)
    rooms.report(1, ONLINE, read=0, write=-1, now_ms=1)
    rooms.report(1, READ, read=0, write=0, now_ms=2)
    assert rooms.stops(1) == (False, True)
    assert rooms.release(1)
    assert not rooms.release(1)
    assert (rooms.stops(1), rooms.abnormal) == ((False, False), {})
