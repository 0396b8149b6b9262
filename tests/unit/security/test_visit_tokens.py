"""Visit tokens of one client each: valid for one user, one client and a limited time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.security.access_rules import AccessRules, UserRules
from pytubemq.security.client_token import TOKEN_LIFE_S, ClientIdentity
from pytubemq.security.token_keys import CLIENT_KEY_PERIOD_S, accepted_keys, client_key, visit_tokens
from pytubemq.security.visit_token import issue_visit_token, user_hint

ROOT = bytes(range(32))
NOW = 1_700_000_000.0
ANN = ClientIdentity("ann", 3)


def rules(users: dict[str, int], now_s: float = NOW, root: bytes = ROOT) -> AccessRules:
    return AccessRules(
        1, enforced=True, keys=accepted_keys(root, now_s=now_s), users={name: UserRules(e) for name, e in users.items()}
    )


def issue(identity: ClientIdentity = ANN, client_id: str = "c1", now_s: float = NOW) -> int:
    return issue_visit_token(client_key(ROOT, now_s=now_s), identity, client_id)


def read(token: int, client_id: str = "c1", now_s: float = NOW, **users: int) -> ClientIdentity | None:
    return rules(users or {"ann": 3, "bob": 3}, now_s).identify_visitor(token, client_id, now_s=now_s)


@given(st.text(min_size=1, max_size=64), st.integers(0, 2**53), st.text(min_size=1, max_size=100))
def test_it_identifies_its_user_and_fits_the_protocol(user: str, epoch: int, client_id: str) -> None:
    token = issue(ClientIdentity(user, epoch), client_id)
    assert 0 < token < 2**63
    found = rules({user: epoch, "another": 1}).identify_visitor(token, client_id, now_s=NOW)
    assert found == ClientIdentity(user, epoch)


@pytest.mark.parametrize("client_id", ["c2", "", "c1 ", "C1"])
def test_another_client_cannot_use_it(client_id: str) -> None:
    assert read(issue(), client_id) is None


def test_it_ends_with_the_secret_of_its_user_and_with_the_user() -> None:
    assert read(issue(), ann=3) == ANN
    assert read(issue(), ann=4) is None
    assert read(issue(), bob=3) is None


def test_no_bit_of_it_can_be_changed() -> None:
    token = issue()
    assert all(read(token ^ (1 << bit)) is None for bit in range(63))


@given(st.integers())
def test_any_other_number_is_no_token(token: int) -> None:
    assert read(token) is None


def test_the_token_of_all_clients_identifies_nobody() -> None:
    assert [read(token) for token in visit_tokens(ROOT, now_s=NOW)] == [None, None]


def test_it_lives_as_long_as_other_tokens_and_at_most_a_period_longer() -> None:
    token = issue()
    assert read(token, now_s=NOW + TOKEN_LIFE_S) == ANN
    assert read(token, now_s=NOW + TOKEN_LIFE_S + CLIENT_KEY_PERIOD_S) is None


def test_users_whose_tokens_begin_alike_are_told_apart() -> None:
    alike: dict[int, str] = {}
    for number in range(100_000):
        name = f"user{number}"
        other = alike.setdefault(user_hint(name), name)
        if other != name:
            break
    both = {name: 1, other: 1}
    for user in both:
        identity = ClientIdentity(user, 1)
        assert rules(both).identify_visitor(issue(identity), "c1", now_s=NOW) == identity
