"""Access tokens of an OIDC issuer on a running Master and Broker: the command line, and keys that are rotated."""

from __future__ import annotations

import json
import logging
import secrets
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from pytubemq.errors import ConfigError
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.sources import load_settings
from tests.scenario.security.command_line import HttpCommands
from tests.scenario.security.secured import ANY
from tests.support.oidc import AUDIENCE, ISSUER, SigningKey, claims, ec_key, jwks, rsa_key
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

TOKEN = secrets.token_urlsafe()


@pytest.fixture(autouse=True)
def _quick_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.server.certificates.TLS_RELOAD_PERIOD_S", 0.05)


def publish(path: Path, *keys: SigningKey) -> None:
    """Replace the file of the issuer's keys."""
    new = path.with_suffix(".new")
    new.write_bytes(jwks(*keys))
    new.chmod(0o644)
    new.replace(path)


@asynccontextmanager
async def node(directory: Path, keys: Path, *users: str) -> AsyncIterator[Node]:
    flags: dict[str, object] = {
        "data": str(directory / "data"),
        "log.level": "warning",
        "http.token": TOKEN,
        "security.authentication": "enforced",
        "security.oidc_issuer": ISSUER,
        "security.oidc_audience": AUDIENCE,
        "security.oidc_keys": str(keys),
        "security.oidc_users": list(users),
    }
    flags |= dict.fromkeys(("master.listen", "broker.listen", "http.listen", "broker.http_listen"), ANY)
    made = Node(load_settings(None, environ={}, flags=flags), ROLES["all"])
    await made.start()
    try:
        yield made
    finally:
        await made.close()


tube = HttpCommands(TOKEN)
as_json = tube.as_json


async def test_the_command_line_works_with_a_token_of_the_issuer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    key, stranger = rsa_key(), rsa_key()
    publish(tmp_path / "keys.json", key)
    now_s = time.time()
    right = key.sign(claims(now_s, sub="ops", exp=int(now_s) + 3600), typ="at+jwt")
    wrong = {
        "its audience (aud) is not tubemq": key.sign(claims(now_s, sub="ops", aud="other")),
        "it expired": key.sign(claims(now_s - 3600, sub="ops")),
        "its signature is not of the key 'rsa'": stranger.sign(claims(now_s, sub="ops")),
        "user 'nosuch' does not exist": key.sign(claims(now_s, sub="nosuch")),
    }
    async with node(tmp_path, tmp_path / "keys.json") as made:
        await as_json(made, "user", "create", "ops")
        code, _, err = await tube(made, "topic", "create", "orders", token=right)
        assert (code, "user ops lacks the permission admin on topic orders" in err) == (4, True), err
        await tube(made, "permission", "grant", "ops", "operate", "cluster")
        code, _, err = await tube(made, "topic", "create", "orders", token=right)
        assert code == 0, err
        for reason, token in wrong.items():
            code, out, err = await tube(made, "topic", "list", token=token)
            assert (code, "the token is wrong, has expired, or was revoked" in err) == (4, True), err
            assert reason not in out + err
        trail = await as_json(made, "audit", "list")
        assert [one["user"] for one in trail if "topic orders" in one["target"].split(", ")] == ["ops"]
        refused = [one for one in trail if one["outcome"] == "refused"]
        assert len(refused) == len(wrong)
        for reason, entry in zip(wrong, reversed(refused), strict=True):
            assert reason in entry["after"]["reason"]
            assert entry["host"] == "127.0.0.1"
            assert reason in caplog.text
        await tube(made, "user", "disable", "ops")
        assert (await tube(made, "topic", "list", token=right))[0] == 4
        texts = json.dumps(await as_json(made, "audit", "list")) + caplog.text
        for token in (right, *wrong.values()):
            assert token not in texts
            assert token.rpartition(".")[2] not in texts


async def test_keys_are_rotated_without_a_restart_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    old, new, path = ec_key("2026-01"), ec_key("2026-02"), tmp_path / "keys.json"
    publish(path, old)
    async with node(tmp_path, path, "7f3c:ann") as made:
        assert made.master is not None
        await made.master.registry.users.create("ann", by=made.master.change_by("test"))
        assert made.endpoints.http is not None
        async with httpx.AsyncClient(base_url=made.endpoints.http) as client:

            async def user_of(key: SigningKey, claim: str = "7f3c") -> str | None:
                headers = {"Authorization": f"Bearer {key.sign(claims(time.time(), sub=claim))}"}
                answer = await client.get("/api/v1/session", headers=headers)
                if answer.status_code == 200:
                    return str(answer.json()["user"])
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
                return None

            assert (await user_of(old), await user_of(new), await user_of(old, "ann")) == ("ann", None, None)
            oidc = made.master.http_access.oidc
            assert oidc is not None
            for keys, found in (((old, new), ("ann", "ann")), ((new,), (None, "ann"))):
                before = oidc._source.keys
                publish(path, *keys)
                await until(lambda keys: oidc._source.keys is not keys, before)
                assert (await user_of(old), await user_of(new)) == found
            path.write_text("{")
            await until(lambda: oidc.problem is not None)
            assert (await user_of(old), await user_of(new)) == (None, "ann")
            health = await client.get("/api/v1/health")
            assert "oidc keys" in [reason["thing"] for reason in health.json()["reasons"]]


async def test_a_wrong_key_file_ends_the_start_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nosuch.json cannot be read"):
        async with node(tmp_path, tmp_path / "nosuch.json"):
            pass
