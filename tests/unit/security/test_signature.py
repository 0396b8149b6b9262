"""Signatures: the original's form, good once and for a short time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.security.replay_window import WINDOW_MS, ReplayWindow
from pytubemq.security.secret import Secret
from pytubemq.security.signature import MAX_NONCE, is_signature, sign

NOW = 1_700_000_000_000
names = st.text(min_size=1, max_size=40)
nonces = st.integers(0, MAX_NONCE)


def test_the_form_is_the_originals() -> None:
    # recorded in the reference of the protocol
    assert sign("admin", Secret("secret"), timestamp_ms=NOW, nonce=12345) == "GzIEn3jIHQZaZeKFky5I832KCzg%3D"


@given(names, names, nonces)
def test_a_signature_is_the_users_own(user: str, secret: str, nonce: int) -> None:
    signature = sign(user, Secret(secret), timestamp_ms=NOW, nonce=nonce)
    assert is_signature(signature, user, Secret(secret), timestamp_ms=NOW, nonce=nonce)
    assert not is_signature(signature, user, Secret(secret + "x"), timestamp_ms=NOW, nonce=nonce)
    assert not is_signature(signature, user + "x", Secret(secret), timestamp_ms=NOW, nonce=nonce)
    assert not is_signature(signature, user, Secret(secret), timestamp_ms=NOW + 1, nonce=nonce)
    assert not is_signature(signature, user, Secret(secret), timestamp_ms=NOW, nonce=nonce ^ 1)


@given(st.text(max_size=200))
def test_any_other_text_is_no_signature(text: str) -> None:
    right = sign("ann", Secret("s"), timestamp_ms=NOW, nonce=1)
    assert is_signature(text, "ann", Secret("s"), timestamp_ms=NOW, nonce=1) == (text == right)


def test_the_window_is_open_on_both_sides_of_now() -> None:
    window = ReplayWindow()
    for shift_ms, timely in ((0, True), (WINDOW_MS, True), (-WINDOW_MS, True), (WINDOW_MS + 1, False), (-NOW, False)):
        assert window.is_timely(NOW + shift_ms, now_ms=NOW) is timely


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-WINDOW_MS, WINDOW_MS), st.integers(0, 2_000)), max_size=60))
def test_a_signature_is_accepted_once_however_time_goes(events: list[tuple[int, int, int]]) -> None:
    window, accepted, now_ms = ReplayWindow(), set(), NOW
    for nonce, shift_ms, later_ms in events:
        now_ms += later_ms
        timestamp_ms = NOW + shift_ms
        if window.is_timely(timestamp_ms, now_ms=now_ms) and window.record("ann", timestamp_ms, nonce, now_ms=now_ms):
            assert (timestamp_ms, nonce) not in accepted
            accepted.add((timestamp_ms, nonce))


def test_a_clock_set_back_reopens_no_signature() -> None:
    window = ReplayWindow()
    assert window.record("ann", NOW + WINDOW_MS, 1, now_ms=NOW)
    assert not window.record("ann", NOW + WINDOW_MS, 1, now_ms=NOW + 2 * WINDOW_MS)


def test_what_is_remembered_is_bounded_and_forgotten_in_time() -> None:
    window = ReplayWindow(max_remembered=20)
    for nonce in range(18):
        assert not window.is_full("ann", now_ms=NOW)
        window.record("ann", NOW, nonce, now_ms=NOW)
    assert window.is_full("ann", now_ms=NOW), "the last tenth is for others"
    for nonce in range(2):
        assert not window.is_full("bob", now_ms=NOW)
        window.record("bob", NOW, nonce, now_ms=NOW)
    assert window.is_full("bob", now_ms=NOW)
    assert window.is_full("eve", now_ms=NOW)
    later_ms = NOW + 2 * WINDOW_MS + 1
    assert not window.is_full("ann", now_ms=later_ms)
    for nonce in range(18):
        window.record("bob", later_ms, nonce, now_ms=later_ms)
    assert not window.is_full("ann", now_ms=later_ms), "what was forgotten counts no more"


def test_what_is_restored_is_refused_and_forgotten_as_what_was_recorded() -> None:
    recorded: list[tuple[int, bytes]] = []
    before = ReplayWindow(on_recorded=lambda until_ms, digest: recorded.append((until_ms, digest)))
    assert before.record("ann", NOW, 1, now_ms=NOW)
    assert not before.record("ann", NOW, 1, now_ms=NOW)
    assert len(recorded) == 1, "what is refused is recorded once"
    after = ReplayWindow(max_remembered=2)
    after.restore([*recorded, (NOW + 2**40, b"a time that no record has")], now_ms=NOW)
    assert after.is_full("bob", now_ms=NOW)
    assert not after.record("ann", NOW, 1, now_ms=NOW)
    assert not after.is_full("bob", now_ms=NOW + 2 * WINDOW_MS + 1)
    for user, nonce in (("bob", 1), ("ann", 2)):
        assert after.record(user, NOW, nonce, now_ms=NOW + 2 * WINDOW_MS + 1)
