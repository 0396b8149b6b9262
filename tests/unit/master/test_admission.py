"""Clients are bounded in number and in what they let the Master remember."""

from __future__ import annotations

import pytest

from pytubemq.errors import Code
from pytubemq.master.admission import Admission
from pytubemq.master.answers import RefusalError


def test_the_number_is_bounded_and_those_that_are_in_may_come_again() -> None:
    admission = Admission(max_clients=2, max_bytes=1000)
    for key in ("a", "b"):
        admission.check(key, 10)
        admission.enter(key, 10)
    with pytest.raises(RefusalError, match="has 2 clients, 2 are allowed") as refused:
        admission.check("c", 10)
    assert refused.value.code is Code.BAD_REQUEST
    admission.check("a", 20)
    admission.leave("b")
    admission.leave("b")
    admission.check("c", 10)


def test_who_is_in_stays_in_whatever_it_says() -> None:
    admission = Admission(max_clients=10, max_bytes=100)
    admission.enter("a", 60)
    admission.enter("b", 40)
    admission.heard("a", 500)
    assert admission.total_bytes == 540
    with pytest.raises(RefusalError, match="540 bytes"):
        admission.check("c", 1)
    admission.check("a", 900)
    admission.heard("a", 80)
    assert admission.total_bytes == 120, "the last heartbeat counts, not the longest"
    admission.heard("a", 5)
    assert admission.total_bytes == 100, "what was registered is remembered"


def test_what_they_say_is_bounded_and_counts_until_they_leave() -> None:
    admission = Admission(max_clients=10, max_bytes=100)
    admission.enter("a", 60)
    admission.heard("stranger", 1000)
    assert admission.total_bytes == 60
    with pytest.raises(RefusalError, match="60 bytes of topics, filters and partitions, and this one 41 more"):
        admission.check("b", 41)
    admission.enter("b", 40)
    assert admission.total_bytes == 100
    admission.enter("a", 10)
    assert admission.total_bytes == 50
    admission.leave("a")
    admission.leave("b")
    assert (len(admission), admission.total_bytes) == (0, 0)
