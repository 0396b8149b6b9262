from __future__ import annotations

import pytest

from pytubemq.core.database.database_limits import MAX_LEASE_S, MIN_LEASE_S
from pytubemq.core.database.lease_watch import Lease, LeaseWatch, leads_until_s


def test_a_lease_that_was_given_back_is_free() -> None:
    assert LeaseWatch().is_free(Lease(3, "", 9, 3.0), now_s=0.0)


def test_a_lease_is_free_once_no_renewal_was_seen_for_its_time() -> None:
    watch, lease = LeaseWatch(), Lease(3, "m1", 9, 3.0)
    assert [watch.is_free(lease, now_s=now_s) for now_s in (100.0, 102.9, 103.0)] == [False, False, True]


@pytest.mark.parametrize("renewed", [Lease(3, "m1", 10, 3.0), Lease(4, "m1", 9, 3.0), Lease(3, "m2", 9, 3.0)])
def test_a_renewal_begins_the_time_anew(renewed: Lease) -> None:
    watch = LeaseWatch()
    assert not watch.is_free(Lease(3, "m1", 9, 3.0), now_s=100.0)
    assert [watch.is_free(renewed, now_s=now_s) for now_s in (102.9, 105.8, 105.9)] == [False, False, True]


def test_a_lease_of_no_time_and_one_without_an_end_are_bounded() -> None:
    for lease_s, bound_s in ((0.0, MIN_LEASE_S), (1e9, MAX_LEASE_S)):
        watch, lease = LeaseWatch(), Lease(1, "m1", 1, lease_s)
        found = [watch.is_free(lease, now_s=now_s) for now_s in (0.0, bound_s - 0.1, bound_s)]
        assert found == [False, False, True]


def test_a_leader_stops_before_a_standby_may_lead() -> None:
    sent_s, seen_s, lease = 10.0, 10.0, Lease(1, "m1", 1, 3.0)  # seen as soon as it was sent: the worst case
    watch = LeaseWatch()
    watch.is_free(lease, now_s=seen_s)
    assert not watch.is_free(lease, now_s=leads_until_s(sent_s, lease.lease_s))
