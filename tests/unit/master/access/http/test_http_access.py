"""Signing in, and tokens of users."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import BadRequestError, NotFoundError
from pytubemq.master.access.http.attempts import FREE_ATTEMPTS
from pytubemq.master.access.http.bearer import PREFIX
from pytubemq.master.access.http.http_access import OPERATOR, Proof, SignInRefusedError, TooManySignInsError
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_SIGN_INS, MAX_USER_TOKENS
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.permissions import Operation, ResourceKind
from pytubemq.security.secret import Secret
from tests.unit.master.groups.room import StandingClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

PASSWORD = Secret("four random words here")
WRONG = Secret("four random words hers")


@asynccontextmanager
async def master() -> AsyncIterator[MasterService]:
    made = MasterService(
        MasterSettings(listen=Address("127.0.0.1", 0), authentication=AuthenticationMode.ENFORCED, root_key=b"k" * 32)
    )
    await made.prepare()
    try:
        by = made.change_by("test")
        for name in ("ann", "nopass"):
            await made.registry.users.create(name, by=by)
        await made.registry.users.alter("ann", password=PASSWORD, by=by)
        await made.registry.users.grant("ann", "produce", "topic", "orders", by=by)
        yield made
    finally:
        await made.close()


async def test_a_right_password_opens_a_session_with_the_users_permissions() -> None:
    async with master() as made:
        token = await made.http_access.sign_in("ann", PASSWORD, "10.0.0.1")
        found = made.http_access.by_session(token)
        assert found is not None
        assert (found.user, found.proof) == ("ann", Proof.SESSION)
        assert found.allows(Operation.PRODUCE, ResourceKind.TOPIC, "orders")
        assert not found.allows(Operation.PRODUCE, ResourceKind.TOPIC, "payments")
        assert not found.is_admin
        assert len(token) >= 43  # 256 bits
        await made.registry.users.alter("ann", password=WRONG, by=made.change_by("test"))
        assert made.http_access.by_session(token) is None


@pytest.mark.parametrize("user", ["ann", "nosuch", "nopass", "", "x" * 10_000, "a,b\n"])
async def test_a_refusal_is_the_same_for_all_and_is_in_the_trail(user: str) -> None:
    async with master() as made:
        with pytest.raises(SignInRefusedError) as refused:
            await made.http_access.sign_in(user, WRONG, "10.0.0.1")
        assert str(refused.value) == ""
        (entry,) = made.catalogue.audit.find()
        assert (entry.action, entry.outcome, entry.host) == ("sign in", "refused", "10.0.0.1")
        assert "\n" not in entry.target
        assert len(entry.target) < 300


@pytest.mark.parametrize("user", ["ann", "nosuch", "nopass"])
async def test_a_refusal_takes_the_same_work_for_all(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with master() as made:
        costs: list[tuple[int, int, int]] = []
        scrypt = hashlib.scrypt

        def counted(text: bytes, *, n: int, r: int, p: int, **more: Any) -> bytes:
            costs.append((n, r, p))
            return scrypt(text, n=n, r=r, p=p, **more)

        monkeypatch.setattr("pytubemq.security.passwords.hashlib.scrypt", counted)
        with pytest.raises(SignInRefusedError):
            await made.http_access.sign_in(user, WRONG, "10.0.0.1")
        assert costs == [(1 << 15, 8, 1)]


async def test_a_disabled_user_cannot_sign_in() -> None:
    async with master() as made:
        await made.registry.users.alter("ann", enabled=False, by=made.change_by("test"))
        with pytest.raises(SignInRefusedError):
            await made.http_access.sign_in("ann", PASSWORD, "10.0.0.1")


async def test_after_some_mistakes_even_the_right_password_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with master() as made:
        monkeypatch.setattr(made.http_access, "_clock", StandingClock())  # the first wait is of one second
        for _ in range(FREE_ATTEMPTS):
            with pytest.raises(SignInRefusedError):
                await made.http_access.sign_in("ann", WRONG, "10.0.0.1")
        with pytest.raises(TooManySignInsError) as early:
            await made.http_access.sign_in("ann", PASSWORD, "10.0.0.9")
        assert early.value.retry_after_s == 1


async def test_a_long_name_takes_little_memory() -> None:
    async with master() as made:
        with pytest.raises(SignInRefusedError):
            await made.http_access.sign_in("x" * 1_000_000, WRONG, "10.0.0.1")
        assert [len(name) for name in made.http_access._attempts._users._counts] == [65]


@pytest.mark.slow
async def test_checks_at_the_same_time_are_bounded() -> None:
    async with master() as made:
        tasks = [
            asyncio.ensure_future(made.http_access.sign_in(f"user_{number}", WRONG, f"10.0.0.{number}"))
            for number in range(MAX_SIGN_INS + 3)
        ]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(one, TooManySignInsError) for one in found) == 3
        assert sum(isinstance(one, SignInRefusedError) for one in found) == MAX_SIGN_INS


async def test_a_token_names_its_user_until_it_ends() -> None:
    async with master() as made:
        tokens, users, by = made.registry.user_tokens, made.registry.users, made.change_by("test")
        record, secret = await tokens.create("ann", by=by)
        text = secret.reveal()
        assert text.startswith(PREFIX)
        assert text not in repr(record)
        found = made.http_access.by_token(text)
        assert found is not None
        assert (found.user, found.proof) == ("ann", Proof.BEARER_TOKEN)
        for wrong in ("", "tmq_", text[:-1], f"{text}x", text.replace(record.token_id, "0" * 16), OPERATOR, "é"):
            assert made.http_access.by_token(wrong) is None
        await users.alter("ann", enabled=False, by=by)
        assert made.http_access.by_token(text) is None
        await users.alter("ann", enabled=True, by=by)
        assert made.http_access.by_token(text) is not None
        await tokens.revoke("ann", record.token_id)
        assert made.http_access.by_token(text) is None
        _, other = await tokens.create("ann", by=by)
        await users.remove("ann")
        await users.create("ann", by=by)
        assert made.http_access.by_token(other.reveal()) is None


async def test_a_token_expires() -> None:
    async with master() as made:
        early = made.change_by("test")
        record, secret = await made.registry.user_tokens.create("ann", by=early, days=1)
        assert record.expires_ms == early.ms + 86_400_000
        assert made.http_access.by_token(secret.reveal()) is not None
        long_ago = type(early)("test", early.ms - 2 * 86_400_000)
        _, old = await made.registry.user_tokens.create("ann", by=long_ago, days=1)
        assert made.http_access.by_token(old.reveal()) is None


async def test_tokens_are_bounded_and_errors_say_what_to_do() -> None:
    async with master() as made:
        tokens, by = made.registry.user_tokens, made.change_by("test")
        for days in (0, -1, 3651):
            with pytest.raises(BadRequestError, match="cannot expire"):
                await tokens.create("ann", by=by, days=days)
        with pytest.raises(NotFoundError, match="no user an") as missing:
            await tokens.create("an", by=by)
        assert missing.value.hint == "did you mean ann?"
        for _ in range(MAX_USER_TOKENS):
            await tokens.create("ann", by=by)
        with pytest.raises(BadRequestError, match=f"has {MAX_USER_TOKENS} bearer tokens"):
            await tokens.create("ann", by=by)
        with pytest.raises(NotFoundError, match="nopass has no bearer token"):
            await tokens.revoke("nopass", tokens.all_of("ann")[0].token_id)
