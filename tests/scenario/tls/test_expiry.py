"""A certificate that is about to expire shows in health and metrics, until a new one is in its place."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until, until_answer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.certificates import Authority

pytestmark = pytest.mark.anyio


async def get(authority: Authority, url: str) -> str:
    def read() -> bytes:
        context = ssl.create_default_context(cafile=authority.path)
        try:
            with urllib.request.urlopen(url, context=context, timeout=30) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            return bytes(error.read())

    return (await asyncio.to_thread(read)).decode()


async def test_health_and_metrics_show_it_in_time(authority: Authority, secure: dict[str, object]) -> None:
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=5, hours=6)
    authority.issue("server", until=soon)
    async with EmbeddedCluster(settings=secure) as cluster:
        broker = cluster.broker_pages[1].removesuffix("/broker.htm")

        async def reasons() -> dict[str, str]:
            found = json.loads(await get(authority, f"{cluster.http}/api/v1/health"))
            return {reason["thing"]: reason["why"] for reason in found["reasons"]}

        async def problems() -> list[str]:
            return list(json.loads(await get(authority, f"{broker}/health"))["problems"])

        assert "server.pem expires in 5 days" in (await reasons())["certificate"]
        assert any("server.pem expires in 5 days" in problem for problem in await problems())
        host, port = cluster.master_tls.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"no handshake at all\r\n")
        for name, url in (("master", cluster.http), ("broker", broker)):
            text = await get(authority, f"{url}/metrics")
            assert f"pytubemq_{name}_certificate_days_left 5." in text
            assert f"pytubemq_{name}_http_certificate_days_left 5." in text
        master = cluster._master
        assert master is not None
        assert master.master is not None
        server = master.master._server
        await until(lambda: server.stats.tls_failures == 1)
        assert "pytubemq_master_tls_failures_total 1.0" in await get(authority, f"{cluster.http}/metrics")
        authority.issue("server")
        await until(lambda: server.certificate_problem is None)
        assert "certificate" not in await reasons()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_a_certificate_of_http_alone_is_watched_as_well(
    authority: Authority, secure: dict[str, object], tmp_path: Path
) -> None:
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3, hours=6)
    web = authority.issue("web", until=soon)
    settings = secure | {"http.tls_cert": web.cert, "http.tls_key": web.key}
    async with EmbeddedCluster(data_dir=tmp_path / "data", settings=settings) as cluster:
        broker = cluster.broker_pages[1].removesuffix("/broker.htm")

        async def reasons() -> dict[str, str]:
            found = json.loads(await get(authority, f"{cluster.http}/api/v1/health"))
            return {reason["thing"]: reason["why"] for reason in found["reasons"]}

        async def problems() -> str:
            return "\n".join(json.loads(await get(authority, f"{broker}/health"))["problems"])

        assert "web.pem expires in 3 days" in (await reasons())["HTTP certificate"]
        assert "certificate" not in await reasons()
        assert "web.pem expires in 3 days" in await problems()
        for name, url in (("master", cluster.http), ("broker", broker)):
            text = await get(authority, f"{url}/metrics")
            assert f"pytubemq_{name}_http_certificate_days_left 3." in text
            assert f"pytubemq_{name}_certificate_days_left 3." not in text
        authority.issue("web")
        await until_answer(reasons, lambda found: "HTTP certificate" not in found)
        await until_answer(problems, lambda found: "web.pem" not in found)
