"""Who a caller is: tokens, sessions, pages of other sites, and what each mode does with strangers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.admin.webapi.authorization import Access
from pytubemq.master.access.http.attempts import FREE_ATTEMPTS
from pytubemq.master.access.http.oidc import OidcTokens
from pytubemq.model.limits import MAX_OIDC_TOKEN_CHARS
from pytubemq.net.clock import SystemClock
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.oidc.issuer_keys import read_issuer_keys
from pytubemq.security.oidc.oidc_tokens import TokenRules
from pytubemq.security.secret import Secret
from tests.support.http_callers import SERVER_TOKEN, headers_of
from tests.support.oidc import AUDIENCE, ISSUER, SigningKey, claims, ec_key, jwks
from tests.unit.admin.access.served import PAGE, PASSWORD, served, sign_in
from tests.unit.master.groups.room import StandingClock

if TYPE_CHECKING:
    from collections.abc import Mapping


pytestmark = pytest.mark.anyio
GRANT = {"operation": "produce", "kind": "topic", "pattern": "more"}


class KeysOf:
    """The keys of an issuer that never change."""

    def __init__(self, key: SigningKey) -> None:
        self.keys = read_issuer_keys(jwks(key), "keys.json")
        self.problem: str | None = None


# --- sessions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "name", "secure"),
    [("http", "pytubemq-session", False), ("https", "__Host-pytubemq-session", True)],
)
async def test_a_session_opens_with_a_strict_cookie_and_ends(scheme: str, name: str, *, secure: bool) -> None:
    async with served(scheme=scheme) as (made, client, _):
        answer = await sign_in(client)
        assert answer.status_code == 201
        assert answer.json()["user"] == "admin"
        cookie = answer.headers["set-cookie"].lower()
        assert cookie.startswith(f"{name.lower()}=")
        assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/"))
        assert ("; secure" in cookie) is secure
        assert "domain" not in cookie
        assert answer.headers["cache-control"] == "no-store"
        (value,) = client.cookies.values()
        assert value not in answer.text
        assert value not in repr(made.http_access.sessions.__dict__)
        assert (await client.get("/api/v1/session")).json()["proof"] == "session"
        assert (await client.get("/api/v1/users")).status_code == 200
        ended = await client.delete("/api/v1/session", headers=PAGE)
        assert ended.status_code == 204
        client.cookies.set(name, value, domain="127.0.0.1")
        assert (await client.get("/api/v1/users")).status_code == 401


@pytest.mark.parametrize("end", ["disable", "remove", "password", "rotate"])
async def test_a_session_ends_with_its_users_rights(end: str) -> None:
    async with served() as (made, client, _):
        await sign_in(client)
        assert (await client.get("/api/v1/users")).status_code == 200
        users, by = made.registry.users, made.change_by("test")
        if end == "disable":
            await users.alter("admin", enabled=False, by=by, force=True)
        elif end == "remove":
            await users.remove("admin", force=True)
        elif end == "password":
            await users.alter("admin", password=Secret("another password"), by=by)
        else:
            await users.rotate("admin", by=by)
        assert (await client.get("/api/v1/users")).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (PAGE, 200),
        ({"Content-Type": "application/json", "Origin": "http://127.0.0.1:8080"}, 200),
        ({"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Content-Type": "application/json"}, 403),
        ({"Content-Type": "text/plain", "Sec-Fetch-Site": "same-origin"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 403),
        ({**PAGE, "Origin": "http://evil.example"}, 403),
        ({**PAGE, "Origin": "null"}, 403),
        ({**PAGE, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**PAGE, "Sec-Fetch-Site": "same-site"}, 403),
        ({**PAGE, "Sec-Fetch-Site": "none", "Origin": ""}, 403),
    ],
)
async def test_a_change_with_a_cookie_comes_from_a_page_of_this_server(headers: Mapping[str, str], status: int) -> None:
    async with served() as (made, client, _):
        await sign_in(client)
        body = b'{"operation": "produce", "kind": "topic", "pattern": "more"}'
        answer = await client.post("/api/v1/users/consumer/permissions", content=body, headers=headers)
        assert answer.status_code == status
        assert any(one.pattern == "more" for one in made.registry.users.find("consumer").permissions) is (status == 200)


async def test_curl_ends_its_session_with_the_headers_that_the_refusal_names() -> None:
    async with served() as (_, client, _):
        await sign_in(client)
        bare = await client.delete("/api/v1/session")
        assert (bare.status_code, bare.json()["message"][:8]) == (403, "a change")
        assert "Content-Type: application/json and Origin" in bare.json()["try"]
        headers = {"Content-Type": "application/json", "Origin": "http://127.0.0.1:8080"}
        assert (await client.delete("/api/v1/session", headers=headers)).status_code == 204
        assert (await client.get("/api/v1/session")).status_code == 401


async def test_a_form_changes_nothing_with_a_cookie() -> None:
    async with served() as (made, client, _):
        await sign_in(client)
        form = {"method": "admin_add_topic_control_info", "topicName": "more", "createUser": "me"}
        headers = {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"}
        found = (await client.post("/webapi.htm", data=form, headers=headers)).json()
        assert "must come from a page of this server, as JSON" in found["errMsg"]
        assert "more" not in made.catalogue.topics
        read = await client.get("/webapi.htm", params={"method": "admin_query_topic_info"})
        assert read.json()["result"]


async def test_another_sites_page_does_not_sign_anyone_in() -> None:
    async with served() as (_, client, _):
        body = {"user": "admin", "password": PASSWORD}
        answer = await client.post("/api/v1/session", json=body, headers={"Origin": "http://evil.example"})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


async def test_a_wrong_password_tells_nothing_and_many_have_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as (made, client, _):
        monkeypatch.setattr(made.http_access, "_clock", StandingClock())  # the first wait is of one second
        unknown = await sign_in(client, user="nosuch")
        wrong = await sign_in(client, password="four random words hers")
        assert (unknown.status_code, unknown.text) == (wrong.status_code, wrong.text) == (401, wrong.text)
        for _ in range(FREE_ATTEMPTS - 2):
            await sign_in(client, password="wrong")
        early = await sign_in(client)
        assert early.status_code == 429
        assert int(early.headers["retry-after"]) >= 1
        assert early.json()["retriable"] is True
        for entry in made.catalogue.audit.find():
            assert (entry.action, entry.outcome) == ("sign in", "refused")
            assert "wrong" not in entry.target


async def test_nobody_signs_in_where_authentication_is_off() -> None:
    async with served(AuthenticationMode.OFF) as (_, client, _):
        answer = await sign_in(client)
        assert answer.status_code == 409
        assert "security.authentication" in answer.json()["try"]


# --- tokens -----------------------------------------------------------------------------------------------------


async def test_a_wrong_token_is_refused_whatever_else_is_there() -> None:
    async with served() as (_, client, tokens):
        await sign_in(client)
        answer = await client.get("/api/v1/users", headers=headers_of("tmq_0_wrong"))
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
        client.cookies.clear()
        assert (await client.get("/api/v1/users")).headers["www-authenticate"] == "Bearer"
        for given in ({"confModAuthToken": tokens["producer"]}, {"authToken": SERVER_TOKEN + "x"}):
            found = await client.get(
                "/webapi.htm", params={"method": "admin_get_methods", **given}, headers=headers_of(tokens["admin"])
            )
            assert "token is wrong" in found.json()["errMsg"], "all tokens must be of the same user"


async def test_an_issuers_token_is_the_users_until_the_master_refuses_it() -> None:
    async with served() as (made, client, _):
        key, now_s = ec_key(), time.time()
        made.http_access.oidc = OidcTokens(TokenRules(ISSUER, AUDIENCE), KeysOf(key), SystemClock())
        right = key.sign(claims(now_s, sub="producer"))
        shown = (await client.get("/api/v1/session", headers=headers_of(right))).json()
        assert (shown["user"], shown["proof"]) == ("producer", "oidc_token")
        answer = await client.post("/api/v1/users/consumer/permissions", json=GRANT, headers=headers_of(right))
        assert answer.json()["message"] == "user producer lacks the permission admin on the cluster"
        answer = await client.post("/api/v1/users/producer/tokens", json={}, headers=headers_of(right))
        assert (answer.status_code, answer.json()["message"]) == (403, "a token cannot make another one")
        wrong = {
            "user": key.sign(claims(now_s, sub="nosuch")),
            "expired": key.sign(claims(now_s - 1_000, sub="producer")),
            "key": ec_key().sign(claims(now_s, sub="producer")),
            "huge": key.sign(claims(now_s, sub="producer", more="x" * MAX_OIDC_TOKEN_CHARS)),
            "nonsense": "a.b.c",
        }
        texts = set()
        for token in wrong.values():
            answer = await client.get("/api/v1/users", headers=headers_of(token))
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')
            texts.add(answer.text)
            found = await client.post("/webapi.htm", data={"method": "admin_get_methods", "authToken": token})
            assert "token is wrong" in found.json()["errMsg"]
        assert len(texts) == 1, "the caller does not learn why"
        (entry,) = made.catalogue.audit.find(target="nosuch")[:1]
        assert (entry.action, entry.outcome) == ("sign in", "refused")
        for method in (client.get, client.post):
            found = await method("/webapi.htm", params={"method": "admin_get_methods", "authToken": right})
            assert "is in the address" in found.json()["errMsg"]


async def test_an_issuers_token_and_the_servers_are_of_two_users() -> None:
    async with served() as (made, client, _):
        key = ec_key()
        made.http_access.oidc = OidcTokens(TokenRules(ISSUER, AUDIENCE), KeysOf(key), SystemClock())
        form = {"method": "admin_get_methods", "confModAuthToken": SERVER_TOKEN}
        both = headers_of(key.sign(claims(time.time(), sub="producer")))
        assert "token is wrong" in (await client.post("/webapi.htm", data=form, headers=both)).json()["errMsg"]
        assert (await client.post("/webapi.htm", data=form)).json()["result"]


async def test_the_servers_own_token_may_look_like_an_issuers() -> None:
    own = f"{SERVER_TOKEN}.with.dots"
    async with served(access=Access(own)) as (_, client, _):
        assert (await client.get("/api/v1/users", headers=headers_of(own))).status_code == 200
        found = await client.get("/webapi.htm", params={"method": "admin_get_methods", "authToken": own})
        assert found.json()["result"]


async def test_a_token_makes_no_other_token_but_its_user_does() -> None:
    async with served() as (_, client, tokens):
        path = "/api/v1/users/producer/tokens"
        answer = await client.post(path, json={}, headers=headers_of(tokens["producer"]))
        assert (answer.status_code, answer.json()["message"]) == (403, "a token cannot make another one")
        await sign_in(client, "producer")
        made = await client.post(path, json={"days": 1}, headers=PAGE)
        assert made.status_code == 201
        client.cookies.clear()
        text = made.json()["token"]
        assert (await client.get("/api/v1/session", headers=headers_of(text))).json()["user"] == "producer"
        listed = await client.get(path, headers=headers_of(text))
        assert text not in listed.text
        assert made.json()["id"] in [one["id"] for one in listed.json()]
        own = await client.delete(f"{path}/{made.json()['id']}", headers=headers_of(text))
        assert own.status_code == 200
        assert (await client.get(path, headers=headers_of(text))).status_code == 401


async def test_a_question_leaves_no_entry_and_a_change_without_a_record_one() -> None:
    async with served() as (made, client, tokens):
        headers = headers_of(tokens["admin"])
        await client.post("/api/v1/users/consumer/permissions:test", json=GRANT, headers=headers)
        assert made.catalogue.audit.find() == []
        unchanged = await client.patch("/api/v1/users/consumer", json={"enabled": True}, headers=headers)
        assert unchanged.status_code == 200
        (entry,) = made.catalogue.audit.find()
        assert (entry.stamp.create_user, entry.target, entry.after) == ("admin", "user consumer", "{}")


async def test_lists_have_what_the_caller_may_see() -> None:
    from pytubemq.model.records import TopicRecord

    async with served() as (made, client, tokens):
        await made.catalogue.apply([TopicRecord("orders"), TopicRecord("payments")])

        async def topics(caller: str) -> list[str]:
            answer = await client.get("/api/v1/topics", headers=headers_of(tokens[caller]))
            return [one["name"] for one in answer.json()]

        assert await topics("producer") == ["orders"]
        assert await topics("operator") == await topics("server") == ["orders", "payments"]


async def test_a_stranger_learns_nothing_from_a_fault_in_a_body() -> None:
    async with served() as (_, client, _):
        for path in ("/api/v1/topics", "/api/v1/topics:batch", "/api/v1/groups/billing/resets"):
            assert (await client.post(path, content=b"nonsense")).status_code == 401
        found = await client.post("/webapi.htm", data={"method": "admin_add_topic_control_info", "topicName": "?"})
        assert "requires authentication" in found.json()["errMsg"]


# --- modes ------------------------------------------------------------------------------------------------------


async def test_permissive_serves_and_logs_what_would_be_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with served(AuthenticationMode.PERMISSIVE) as (_, client, tokens):
        assert (await client.get("/api/v1/cluster/defaults")).status_code == 200
        assert "GET /api/v1/cluster/defaults by nobody from 127.0.0.1 would be refused" in caplog.text
        answer = await client.get("/api/v1/cluster/defaults", headers=headers_of(tokens["producer"]))
        assert answer.status_code == 200
        assert "by producer from 127.0.0.1 would be refused: user producer lacks the permission describe" in caplog.text
        path = "/api/v1/users/consumer/permissions"
        assert (await client.post(path, json=GRANT)).status_code == 401, "what the token guarded it still guards"
        assert (await client.post(path, json=GRANT, headers=headers_of(tokens["producer"]))).status_code == 401
        assert (await client.post(path, json=GRANT, headers=headers_of(tokens["admin"]))).status_code == 200


async def test_permissive_without_a_token_serves_this_machine_as_before() -> None:
    async with served(AuthenticationMode.PERMISSIVE, Access()) as (_, client, _):
        assert (await client.post("/api/v1/users/consumer/permissions", json=GRANT)).status_code == 200


async def test_enforced_serves_nobody_without_a_permission_even_on_this_machine() -> None:
    async with served(access=Access()) as (_, client, tokens):
        answer = await client.post("/api/v1/users/consumer/permissions", json=GRANT)
        assert answer.status_code == 401
        lacking: dict[str, Any] = (
            await client.post("/api/v1/users/consumer/permissions", json=GRANT, headers=headers_of(tokens["operator"]))
        ).json()
        assert lacking["message"] == "user operator lacks the permission admin on the cluster"
        assert lacking["try"] == "an administrator grants it:  pytubemq permission grant operator admin cluster"
        assert (await client.get("/api/v1/health")).status_code in (200, 503)
