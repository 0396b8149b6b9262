"""Requests that mean harm, against a real server with its real settings: bounded, refused, and nothing is told."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import httpx
import pytest

from pytubemq.cli.api import Api
from pytubemq.errors import ConfigError, NotAllowedError
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.server.sources import load_settings, to_toml
from tests.scenario.webapi.house import USER

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

TOKEN = "never-seen-8VqZ3kT1xRb6Ym0WcJ4u"
CHANGE = {"method": "admin_add_group_resctrl_info", "groupName": "g1", **USER}


async def raw(base: str, data: bytes) -> bytes:
    """What a server says to bytes on a connection, until it closes."""
    place = urlsplit(base)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(data)
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    return answer


async def test_a_server_with_a_token_keeps_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    settings = {"http.token": TOKEN, "log.level": "debug"}
    async with (
        EmbeddedCluster(data_dir=tmp_path, brokers=0, settings=settings) as cluster,
        httpx.AsyncClient(base_url=cluster.http) as client,
    ):
        said = []
        for given in ({}, {"authToken": "wrong"}, {"confModAuthToken": TOKEN[:-1]}, {"authToken": TOKEN + "x"}):
            answer = await client.get("/webapi.htm", params={**CHANGE, **given})
            assert answer.json()["result"] is False
            said.append(answer.text)
        answer = await client.get("/webapi.htm", params={**CHANGE, "authToken": TOKEN})
        assert answer.json()["data"][0]["errCode"] == 200
        answer = await client.get("/webapi.htm", params={**CHANGE, "authToken": TOKEN, "groupName": "<&>"})
        assert "groupName" in answer.json()["errMsg"]
        said.append(answer.text)
        for page in ("/webapi.htm?method=admin_get_methods", "/master.htm?type=broker", "/api/v1/cluster"):
            said.append((await client.get(page)).text)
    assert TOKEN[:-1] not in ours(caplog) + "".join(said)
    assert "admin_add_group_resctrl_info (groupName g1) by me from 127.0.0.1: done" in caplog.text


async def test_the_json_api_and_the_command_line_know_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EmbeddedCluster(data_dir=tmp_path, settings={"http.token": TOKEN}) as cluster:
        for token in ("", "wrong"):
            monkeypatch.setenv("PYTUBEMQ_TOKEN", token)
            with pytest.raises(NotAllowedError) as caught:
                await asyncio.to_thread(Api(cluster.http, timeout_s=20).post, "topics", body={"name": "demo"})
            assert "PYTUBEMQ_TOKEN" in str(caught.value)
        monkeypatch.setenv("PYTUBEMQ_TOKEN", TOKEN)
        made = await asyncio.to_thread(Api(cluster.http, timeout_s=20).post, "topics", body={"name": "demo"})
        assert made["name"] == "demo"


@pytest.mark.parametrize("token", ["two words", "schlüssel", "x" * 129, "tab\t"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, environ={"PYTUBEMQ_HTTP__TOKEN": token})
    assert "http.token" in str(caught.value)
    assert token not in str(caught.value)


def ours(caplog: pytest.LogCaptureFixture) -> str:
    """What the server has logged; the test's own client logs its addresses."""
    return "\n".join(
        record.getMessage() + (record.exc_text or "")
        for record in caplog.records
        if not record.name.startswith(("httpx", "httpcore"))
    )


async def test_requests_beyond_all_bounds_are_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path, brokers=0) as cluster:
        async with httpx.AsyncClient(base_url=cluster.http, timeout=30) as client:
            form = {"content-type": "application/x-www-form-urlencoded"}
            many = "&".join(f"p{number}=1" for number in range(10_000))
            answer = await client.post("/webapi.htm", content=many, headers=form)
            assert "more than 128 parameters" in answer.json()["errMsg"]
            answer = await client.post("/webapi.htm", content=b"method=" + b"m" * (8 << 20), headers=form)
            assert "longer than" in answer.json()["errMsg"]
            huge = {**CHANGE, "groupName": "g" * 900_000}
            answer = await client.post("/webapi.htm", data=huge)
            assert "has 900,000 characters, at most 1,024" in answer.json()["errMsg"]
            assert len(answer.text) < 500
            nested = quote(quote("[" * 100_000))
            answer = await client.post(
                "/webapi.htm", content=f"method=admin_batch_add_group_resctrl_info&cur=me&gResCtrlSet={nested}",
                headers=form,
            )  # fmt: skip
            assert "nested too deep" in answer.json()["errMsg"]
            some = quote(json.dumps([{"groupName": f"g{number}"} for number in range(10_001)]))
            answer = await client.post(
                "/webapi.htm", data={"method": "admin_batch_add_group_resctrl_info", "cur": "me", "gResCtrlSet": some}
            )
            assert "10,001 objects" in answer.json()["errMsg"]
            for content in (b"method=\xff\xfe", b"method=%ff", b"\x00\x01=\x02", b"&&&=&=;;", b"method=%", b"=" * 1000):
                answer = await client.post("/webapi.htm", content=content, headers=form)
                assert answer.json()["result"] is False
        line = b"GET /webapi.htm?" + many.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        refused = await raw(cluster.http, line)  # by HTTP itself where the line comes in pieces
        assert refused.startswith(b"HTTP/1.1 4") or b"more than 128 parameters" in refused
        bad = await raw(
            cluster.http, b"GET /webapi.htm?method=\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        )
        assert b"500" not in bad[:20]
        async with httpx.AsyncClient(base_url=cluster.http) as client:
            assert (await client.get("/webapi.htm", params={"method": "admin_query_server_version"})).json()["result"]
            answer = await client.get("/webapi.htm", params={"method": "admin_query_group_resctrl_info"})
            assert answer.json()["data"] == []


async def test_pages_of_other_sites_change_nothing(tmp_path: Path) -> None:
    async with (
        EmbeddedCluster(data_dir=tmp_path, brokers=0) as cluster,
        httpx.AsyncClient(base_url=cluster.http) as client,
    ):
        for headers in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Origin": "http://evil.example"},
            {"Referer": "http://evil.example/"},
        ):
            for answer in (
                await client.get("/webapi.htm", params=CHANGE, headers=headers),
                await client.post("/webapi.htm", data=CHANGE, headers=headers),
                await client.get(
                    "/webapi.htm", params={"method": "admin_query_sub_info", "callback": "f"}, headers=headers
                ),
            ):
                assert answer.json()["result"] is False
                assert "another site" in answer.json()["errMsg"]
        answer = await client.get("/webapi.htm", params=CHANGE, headers={"Host": "evil.example"})
        assert answer.status_code == 421
        own = {"Origin": cluster.http, "Sec-Fetch-Site": "same-origin"}
        assert (await client.post("/webapi.htm", data=CHANGE, headers=own)).json()["result"]


def test_a_token_goes_into_a_childs_settings_and_is_read_back() -> None:
    settings = load_settings(None, environ={"PYTUBEMQ_HTTP__TOKEN": TOKEN}, flags={"http.token_in_url": "false"})
    assert (settings.http.token, settings.http.token_in_url) == (TOKEN, False)
    assert f'token = "{TOKEN}"' in to_toml(settings)
