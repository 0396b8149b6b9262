"""Secrets: never shown, sealed with a key, hashed where nobody needs them back."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.admin.bodies import ChangedUser, NewSecret, NewUser, SignIn
from pytubemq.errors import ConfigError
from pytubemq.security.passwords import SALT_BYTES, hash_password, is_password
from pytubemq.security.sealing import Sealer
from pytubemq.security.secret import Secret
from pytubemq.wire.protocol.messages import broker, master

if TYPE_CHECKING:
    from types import ModuleType

ROOT = bytes(range(32))


@given(st.text())
def test_no_text_of_a_secret_shows_it(value: str) -> None:
    secret = Secret(value)
    assert f"{secret} {secret!r} {secret:>10} {[secret]}" == "******** Secret(********) ******** [Secret(********)]"
    assert str(secret) == format(secret) == "********"
    assert secret.reveal() == value


@pytest.mark.parametrize("kind", [broker, master])
def test_no_text_of_a_message_shows_a_token_a_signature_or_a_key(kind: ModuleType) -> None:
    planted = {"auth_authorized_token": "planted", "authorized_token": "planted", "signature": "planted",
               "value": b"planted", "visit_authorized_token": 424242}  # fmt: skip
    found = 0
    for message in vars(kind).values():
        if isinstance(message, type) and dataclasses.is_dataclass(message):
            named = {field.name: planted[field.name] for field in dataclasses.fields(message) if field.name in planted}
            if named:
                shown = repr(message(**{field.name: 0 for field in dataclasses.fields(message)} | named))
                assert "planted" not in shown, shown
                assert "424242" not in shown, shown
                found += 1
    assert found == {"broker": 1, "master": 5}[kind.__name__.rpartition(".")[2]]


@pytest.mark.parametrize(
    "body",
    [
        SignIn(user="ann", password="planted"),
        NewUser(name="ann", secret="planted"),
        NewSecret(secret="planted"),
        ChangedUser(password="planted"),
    ],
)
def test_no_text_of_a_body_shows_what_is_secret_in_it(body: object) -> None:
    assert "planted" not in f"{body} {body!r}"


def test_a_secret_is_neither_pickled_nor_copied() -> None:
    for make_copy in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="token of limited life"):
            make_copy(Secret("s3cret"))


def test_secrets_are_compared_by_value_and_have_no_hash() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    with pytest.raises(TypeError):
        hash(Secret("a"))
    assert not Secret("")


@given(st.text(), st.text(min_size=1))
def test_what_was_sealed_opens_for_the_same_user(secret: str, user: str) -> None:
    sealer = Sealer(ROOT, os.urandom)
    assert sealer.open(user, sealer.seal(user, Secret(secret))) == Secret(secret)


def test_equal_secrets_are_sealed_differently() -> None:
    sealer = Sealer(ROOT, os.urandom)
    assert sealer.seal("ann", Secret("same")) != sealer.seal("ann", Secret("same"))


def test_another_user_another_key_and_any_changed_character_open_nothing() -> None:
    sealer = Sealer(ROOT, os.urandom)
    sealed = sealer.seal("ann", Secret("s3cret"))
    with pytest.raises(ConfigError, match=r"stored secret of user bob .* key"):
        sealer.open("bob", sealed)
    with pytest.raises(ConfigError, match="does not open"):
        Sealer(bytes(32), os.urandom).open("ann", sealed)
    for place in range(len(sealed)):
        changed = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1 :]
        with pytest.raises(ConfigError):
            sealer.open("ann", changed)
    for malformed in ("", "1:", "1:AAAA", "2:" + sealed[2:], sealed[2:], "1:\u00e4"):
        with pytest.raises(ConfigError):
            sealer.open("ann", malformed)


def test_a_password_is_checked_and_cannot_be_read_back() -> None:
    stored = hash_password(Secret("correct horse"), salt=bytes(SALT_BYTES))
    assert "horse" not in stored
    assert stored != hash_password(Secret("correct horse"), salt=os.urandom(SALT_BYTES))
    assert is_password(Secret("correct horse"), stored)
    assert not is_password(Secret("correct horsf"), stored)
    assert not is_password(Secret(""), stored)


@pytest.mark.parametrize("stored", ["", "x", "scrypt:1:1:1:AAAA:AAAA", "scrypt:15:8:1:*:*", "md5:15:8:1:AAAA:AAAA"])
def test_a_text_that_is_no_stored_password_matches_none(stored: str) -> None:
    assert not is_password(Secret(""), stored)
    assert not is_password(Secret("x"), stored)
