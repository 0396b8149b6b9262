"""Tokens of clients and visit tokens: derived keys, and no way to alter or pass on a token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.security.client_token import (
    MAX_TOKEN_CHARS,
    TOKEN_LIFE_S,
    ClientIdentity,
    issue_token,
    issued_s,
    read_token,
)
from pytubemq.security.token_keys import CLIENT_KEY_PERIOD_S, VISIT_PERIOD_S, accepted_keys, client_key, visit_tokens

ROOT = bytes(range(32))
NOW = 1_700_000_000.0
ANN = ClientIdentity("ann", 3)


def issue(identity: ClientIdentity = ANN, client_id: str = "c1", now_s: float = NOW) -> str:
    return issue_token(client_key(ROOT, now_s=now_s), identity, client_id, now_s=now_s)


def read(token: str, client_id: str = "c1", now_s: float = NOW, root: bytes = ROOT) -> ClientIdentity | None:
    return read_token(accepted_keys(root, now_s=now_s), token, client_id, now_s=now_s)


@given(st.text(min_size=1, max_size=64), st.integers(0, 2**53), st.text(min_size=1, max_size=100))
def test_a_token_stands_for_its_user(user: str, epoch: int, client_id: str) -> None:
    identity = ClientIdentity(user, epoch)
    token = issue(identity, client_id)
    assert token.isascii()
    assert " " not in token
    assert read(token, client_id) == identity


@pytest.mark.parametrize("client_id", ["c2", "", "c1 ", "C1"])
def test_another_client_cannot_use_it(client_id: str) -> None:
    assert read(issue(), client_id) is None


def test_a_client_that_was_given_it_uses_it_under_an_id_of_its_own_and_renews_it() -> None:
    assert read(issue(), "other~c1") == ANN
    assert read(issue(client_id="other~c1"), "c1") == ANN
    assert read(issue(client_id="other~c1"), "third~c1") == ANN
    for client_id in ("c1~other", "other~c2", "c1~", "~"):
        assert read(issue(), client_id) is None


def test_the_time_of_issue_is_told_of_tokens_alone() -> None:
    assert issued_s(issue()) == int(NOW)
    for text in ("", "1.2.3", "1.2.x.4.5.6", "ann 1 2 abc", f"1.2.{'9' * 30}.4.5.6"):
        assert issued_s(text) == 0


def test_no_character_of_it_can_be_changed_added_or_left_out() -> None:
    token = issue()
    for place, char in enumerate(token):
        for other in {"A", "B", "0", "1", ".", "-"} - {char}:
            assert read(token[:place] + other + token[place + 1 :]) is None
        assert read(token[:place] + token[place + 1 :]) is None
        assert read(token[:place] + "1" + token[place:]) is None or token[:place] + "1" + token[place:] == token


@given(st.text(max_size=700))
def test_any_other_text_is_no_token(text: str) -> None:
    assert read(text) is None


def test_a_long_text_is_refused_before_it_is_read() -> None:
    assert read(issue() + "A" * MAX_TOKEN_CHARS) is None


def test_it_lives_for_a_limited_time_and_not_before_it_was_issued() -> None:
    token = issue()
    assert read(token, now_s=NOW + TOKEN_LIFE_S - 1) == ANN
    assert read(token, now_s=NOW + TOKEN_LIFE_S + 1) is None
    assert read(token, now_s=NOW - 3_600) is None


def test_whoever_has_the_root_key_reads_it_and_nobody_else() -> None:
    assert read(issue(), root=bytes(32)) is None
    assert read(issue(now_s=NOW), now_s=NOW + CLIENT_KEY_PERIOD_S) == ANN


def test_accepted_keys_cover_the_life_of_a_token_and_the_next_period() -> None:
    periods = [key.period for key in accepted_keys(ROOT, now_s=NOW)]
    current = client_key(ROOT, now_s=NOW).period
    assert periods == [current + 1, current, current - 1, current - 2, current - 3]
    assert repr(client_key(ROOT, now_s=NOW)) == f"ClientKey({current})"


def test_visit_tokens_change_with_their_period_and_overlap() -> None:
    valid, fresh = visit_tokens(ROOT, now_s=NOW)
    assert valid != fresh
    assert visit_tokens(ROOT, now_s=NOW + VISIT_PERIOD_S)[0] == fresh
    assert visit_tokens(bytes(32), now_s=NOW) != (valid, fresh)


@given(st.floats(0, 1e10))
def test_visit_tokens_are_positive_and_fit_63_bits(now_s: float) -> None:
    assert all(0 < token < 2**63 for token in visit_tokens(ROOT, now_s=now_s))
