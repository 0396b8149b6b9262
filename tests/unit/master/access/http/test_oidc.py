"""Access tokens of an issuer at a Master: users as they are now, keys as they are now, and a bounded memory."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from pytubemq.master.access.http.http_access import Proof
from pytubemq.master.access.http.oidc import OidcTokens
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_OIDC_TOKEN_CHARS, OIDC_LEEWAY_S, OIDC_VERIFIED_S
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.oidc.issuer_keys import IssuerKeys, read_issuer_keys
from pytubemq.security.oidc.oidc_tokens import OidcTokenError, TokenRules, verify_token
from pytubemq.security.permissions import Operation, ResourceKind
from tests.support.oidc import AUDIENCE, ISSUER, SigningKey, claims, ec_key, jwks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FIRST, SECOND = ec_key("first"), ec_key("second")
RULES = TokenRules(ISSUER, AUDIENCE)
START_MS = 1_700_000_000_000


class FakeClock:
    def __init__(self) -> None:
        self.s = 0.0

    def now_s(self) -> float:
        return self.s

    def wall_ms(self) -> int:
        return START_MS + int(self.s * 1000)


class Source:
    """Keys that a test replaces."""

    def __init__(self, *keys: SigningKey) -> None:
        self.problem: str | None = None
        self.keys: IssuerKeys
        self.put(*keys)

    def put(self, *keys: SigningKey) -> None:
        self.keys = read_issuer_keys(jwks(*keys), "keys.json")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens whose signatures were checked."""
    seen: list[str] = []

    def counted(text: str, keys: IssuerKeys, rules: TokenRules, *, now_s: float) -> object:
        seen.append(text)
        return verify_token(text, keys, rules, now_s=now_s)

    monkeypatch.setattr("pytubemq.master.access.http.oidc.verify_token", counted)
    return seen


def token(key: SigningKey = FIRST, *, at_s: float = 0.0, **others: object) -> str:
    return key.sign(claims(START_MS / 1000 + at_s, **others))


def test_a_signature_is_checked_once_a_minute(checks: list[str]) -> None:
    clock = FakeClock()
    made, text = OidcTokens(RULES, Source(FIRST), clock), token()
    for clock.s in (0.0, 1.0, OIDC_VERIFIED_S - 1):
        assert made.user_of(text) == "ann"
    assert len(checks) == 1
    clock.s = OIDC_VERIFIED_S
    assert made.user_of(text) == "ann"
    assert len(checks) == 2


def test_what_was_verified_does_not_outlive_its_expiry(checks: list[str]) -> None:
    clock = FakeClock()
    made, text = OidcTokens(RULES, Source(FIRST), clock), token(exp=START_MS // 1000 + 10)
    assert made.user_of(text) == "ann"
    clock.s = 10.0  # in the leeway: right, but checked each time
    assert made.user_of(text) == made.user_of(text) == "ann"
    assert len(checks) == 3
    clock.s = 10.0 + OIDC_LEEWAY_S
    with pytest.raises(OidcTokenError, match="expired"):
        made.user_of(text)


def test_a_key_that_is_gone_ends_its_tokens_at_once_and_a_new_one_counts_at_once() -> None:
    source = Source(FIRST)
    made, of_first, of_second = OidcTokens(RULES, source, FakeClock()), token(), token(SECOND)
    assert made.user_of(of_first) == "ann"
    with pytest.raises(OidcTokenError, match="'second', which is not in the file"):
        made.user_of(of_second)
    source.put(FIRST, SECOND)
    assert made.user_of(of_first) == made.user_of(of_second) == "ann"
    source.put(SECOND)
    with pytest.raises(OidcTokenError, match="'first', which is not in the file"):
        made.user_of(of_first)
    assert made.user_of(of_second) == "ann"


def test_memory_is_bounded_and_holds_no_token() -> None:
    made = OidcTokens(RULES, Source(FIRST), FakeClock(), most=3)
    texts = [token(jti=str(number)) for number in range(5)]
    for text in texts:
        made.user_of(text)
    assert len(made._verified) == 3
    assert not any(text in repr(made._verified) for text in texts)
    for wrong in ("a.b.c", token(SECOND), "x" * 100_000 + "..", "\ud800.."):
        with pytest.raises(OidcTokenError):
            made.user_of(wrong)
    assert len(made._verified) == 3


@asynccontextmanager
async def master() -> AsyncIterator[MasterService]:
    settings = MasterSettings(
        listen=Address("127.0.0.1", 0), authentication=AuthenticationMode.ENFORCED, root_key=b"k" * 32
    )
    clock = FakeClock()
    made = MasterService(settings, clock=clock)
    await made.prepare()
    try:
        made.http_access.oidc = OidcTokens(RULES, Source(FIRST), clock)
        by = made.change_by("test")
        await made.registry.users.create("ann", by=by)
        await made.registry.users.grant("ann", "produce", "topic", "orders", by=by)
        yield made
    finally:
        await made.close()


@pytest.mark.anyio
async def test_the_users_permissions_are_the_masters_and_as_they_are_now() -> None:
    async with master() as made:
        text, users, by = token(scope="admin", roles=["admin"]), made.registry.users, made.change_by("test")
        found = await made.http_access.by_oidc_token(text, "10.0.0.1")
        assert found is not None
        assert (found.user, found.proof, found.is_admin) == ("ann", Proof.OIDC_TOKEN, False)
        assert found.allows(Operation.PRODUCE, ResourceKind.TOPIC, "orders")
        await users.revoke("ann", "produce", "topic", "orders")
        found = await made.http_access.by_oidc_token(text, "10.0.0.1")
        assert found is not None
        assert not found.allows(Operation.PRODUCE, ResourceKind.TOPIC, "orders")
        await users.alter("ann", enabled=False, by=by)
        assert await made.http_access.by_oidc_token(text, "10.0.0.1") is None
        await users.alter("ann", enabled=True, by=by)
        assert await made.http_access.by_oidc_token(text, "10.0.0.1") is not None
        await users.remove("ann")
        assert await made.http_access.by_oidc_token(text, "10.0.0.1") is None
        reasons = [entry.after for entry in made.catalogue.audit.find() if entry.action == "sign in"]
        assert reasons == [
            """{"reason": "user 'ann' does not exist at this Master"}""",
            """{"reason": "user 'ann' is disabled"}""",
        ]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        (token(at_s=-1000), "OIDC token", "it expired 700 s ago"),
        (token(ec_key("first")), "OIDC token", "its signature is not of the key 'first'"),
        (token(sub="@http.token"), "user @http.token", "user '@http.token' does not exist at this Master"),
        (token(sub="a,b\n\x1b" + "x" * 500), "user a?b", "does not exist at this Master"),
        ("x.y." + "z" * MAX_OIDC_TOKEN_CHARS, "OIDC token", "it has 8,196 characters, at most 8,192 are read"),
    ],
    ids=range(5),
)
async def test_a_refusal_is_in_the_log_and_in_the_trail_without_the_token(
    text: str, target: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with master() as made:
        caplog.set_level(logging.WARNING)
        assert await made.http_access.by_oidc_token(text, "10.0.0.1") is None
        (entry,) = [one for one in made.catalogue.audit.find() if one.action == "sign in"]
        assert (entry.outcome, entry.host) == ("refused", "10.0.0.1")
        assert entry.target.startswith(target)
        assert reason in entry.after
        (line,) = [record.getMessage() for record in caplog.records if "OIDC" in record.getMessage()]
        assert line.startswith("http access: an access token of the OIDC issuer from 10.0.0.1 is refused: ")
        assert reason in line
        assert line.isprintable()
        assert len(line) < 400
        assert text[-40:] not in line + entry.target + entry.after


@pytest.mark.anyio
async def test_a_flood_of_refusals_is_bounded_in_the_trail() -> None:
    async with master() as made:
        for _ in range(100):
            await made.http_access.by_oidc_token("a.b.c", "10.0.0.1")
        assert len([one for one in made.catalogue.audit.find() if one.action == "sign in"]) == 30


@pytest.mark.anyio
async def test_without_an_issuer_no_such_token_is_anybodys() -> None:
    async with master() as made:
        made.http_access.oidc = None
        assert await made.http_access.by_oidc_token(token(), "10.0.0.1") is None


@pytest.mark.anyio
async def test_changed_keys_that_are_not_in_force_are_in_the_clusters_health() -> None:
    async with master() as made:
        source = Source(FIRST)
        made.http_access.oidc = OidcTokens(RULES, source, FakeClock())
        assert "oidc keys" not in [reason.thing for reason in (await made.health()).reasons]
        source.problem = "keys.json is not a JWKS"
        (reason,) = [one for one in (await made.health()).reasons if one.thing == "oidc keys"]
        assert reason.why == "changed keys of the OIDC issuer are not in force: keys.json is not a JWKS"
