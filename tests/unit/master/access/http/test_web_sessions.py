"""Sessions: when they end."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from pytubemq.master.access.http.web_sessions import IDLE_S, LONGEST_S, MAX_SESSIONS_OF_USER, WebSessions
from pytubemq.model.records import UserRecord

ANN = UserRecord("ann", password_hash="scrypt:1")
USERS = {"ann": ANN}


def sessions(most: int = 100) -> WebSessions:
    numbers = count()
    return WebSessions(lambda: f"token-{next(numbers)}", most=most)


def test_a_session_is_found_by_its_token_alone() -> None:
    made = sessions()
    token = made.open(ANN, 0.0)
    found = made.find(token, USERS.get, 1.0)
    assert found is not None
    assert found.user == "ann"
    assert made.find("another", USERS.get, 1.0) is None
    assert token not in repr(made._sessions)


def test_a_session_ends_when_idle_and_after_its_longest_time() -> None:
    made = sessions()
    idle, used = made.open(ANN, 0.0), made.open(ANN, 0.0)
    now_s = 0.0
    while now_s + IDLE_S / 2 < LONGEST_S:
        now_s += IDLE_S / 2
        assert made.find(used, USERS.get, now_s) is not None
    assert made.find(idle, USERS.get, IDLE_S) is None
    assert made.find(used, USERS.get, LONGEST_S) is None


def test_a_session_ends_with_what_its_user_was() -> None:
    for changed in (
        None,
        replace(ANN, user_enabled=False),
        replace(ANN, secret_epoch=2),
        replace(ANN, password_hash="scrypt:2"),
    ):
        made = sessions()
        token = made.open(ANN, 0.0)
        assert made.find(token, lambda _, changed=changed: changed, 1.0) is None  # type: ignore[misc]
        assert made.find(token, USERS.get, 1.0) is None  # and does not come back


def test_a_closed_session_is_gone() -> None:
    made = sessions()
    token = made.open(ANN, 0.0)
    made.close(token)
    made.close(token)
    assert made.find(token, USERS.get, 0.0) is None


def test_the_number_is_bounded_for_each_user_and_for_all() -> None:
    made = sessions(most=30)
    own = [made.open(ANN, 0.0) for _ in range(MAX_SESSIONS_OF_USER + 1)]
    assert made.find(own[0], USERS.get, 0.0) is None
    assert len(made) == MAX_SESSIONS_OF_USER
    for number in range(100):
        made.open(UserRecord(f"user_{number}"), 0.0)
    assert len(made) == 30
    assert made.find(own[-1], USERS.get, 0.0) is None
