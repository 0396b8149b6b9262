"""Waits after wrong passwords."""

from __future__ import annotations

import pytest

from pytubemq.master.access.http.attempts import (
    FORGET_S,
    FREE_ATTEMPTS,
    LONGEST_HOST_WAIT_S,
    LONGEST_USER_WAIT_S,
    Attempts,
    site_of,
)


def fail(attempts: Attempts, user: str, host: str, times: int, now_s: float = 0.0) -> None:
    for _ in range(times):
        attempts.begin(user, host, now_s)


def test_some_mistakes_cost_nothing_and_then_each_wait_doubles() -> None:
    attempts = Attempts()
    fail(attempts, "ann", "10.0.0.1", FREE_ATTEMPTS - 1)
    assert attempts.wait_s("ann", "10.0.0.1", 0.0) == 0
    waits = []
    for _ in range(5):
        fail(attempts, "ann", "10.0.0.1", 1)
        waits.append(attempts.wait_s("ann", "10.0.0.1", 0.0))
    assert waits == [1, 2, 4, 8, 16]
    assert attempts.wait_s("ann", "10.0.0.1", 15.0) == 1


def test_a_user_waits_from_every_host_and_a_host_with_every_user() -> None:
    attempts = Attempts()
    fail(attempts, "ann", "10.0.0.1", FREE_ATTEMPTS)
    assert attempts.wait_s("ann", "10.9.9.9", 0.0) > 0
    assert attempts.wait_s("bob", "10.0.0.1", 0.0) > 0
    assert attempts.wait_s("bob", "10.9.9.9", 0.0) == 0


def test_waits_are_bounded_and_the_users_is_shorter() -> None:
    attempts = Attempts()
    fail(attempts, "ann", "10.0.0.1", 100)
    assert attempts.wait_s("ann", "10.9.9.9", 0.0) == LONGEST_USER_WAIT_S
    assert attempts.wait_s("bob", "10.0.0.1", 0.0) == LONGEST_HOST_WAIT_S


def test_a_success_forgives_the_user_and_one_attempt_of_the_host() -> None:
    attempts = Attempts()
    for number in range(FREE_ATTEMPTS - 1):
        fail(attempts, f"guess_{number}", "10.0.0.1", 1)
    for _ in range(10):  # a right password does not let the host guess on
        fail(attempts, "own", "10.0.0.1", 1)
        attempts.succeeded("own", "10.0.0.1")
    assert attempts.wait_s("own", "10.0.0.1", 0.0) == 0
    fail(attempts, "guess", "10.0.0.1", 1)
    assert attempts.wait_s("other", "10.0.0.1", 0.0) > 0


def test_the_count_begins_anew_after_a_quiet_time() -> None:
    attempts = Attempts()
    fail(attempts, "ann", "10.0.0.1", FREE_ATTEMPTS)
    fail(attempts, "ann", "10.0.0.1", 1, now_s=FORGET_S + 2)
    assert attempts.wait_s("ann", "10.0.0.1", FORGET_S + 2) == 0


def test_memory_is_bounded_and_the_latest_are_kept() -> None:
    attempts = Attempts(most=10)
    for number in range(50):
        fail(attempts, f"user_{number}", f"10.0.0.{number}", FREE_ATTEMPTS)
    assert len(attempts._users._counts) == len(attempts._hosts._counts) == 10
    assert attempts.wait_s("user_49", "10.9.9.9", 0.0) > 0
    assert attempts.wait_s("user_0", "10.9.9.9", 0.0) == 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("?", "?", True),
    ],
)
def test_a_site_of_ipv6_counts_as_one_host(one: str, other: str, same: bool) -> None:
    assert (site_of(one) == site_of(other)) is same
