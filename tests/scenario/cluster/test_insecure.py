"""What others may see of a server, and what a server says when it is open to them."""

from __future__ import annotations

import asyncio
import logging
import re
import stat
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.cli.api import Api
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.server.compose import Node

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]
HTML = {"Accept": "text/html"}


async def get(url: str, **headers: str) -> str:
    def read() -> str:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return str(answer.read(), "utf-8")

    return await asyncio.to_thread(read)


@pytest.mark.parametrize("insecure", [True, False])
async def test_insecure_shows_in_log_health_metrics_and_pages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, insecure: bool
) -> None:
    settings = {"insecure": insecure, "broker.http_listen": "127.0.0.1:0"}
    with caplog.at_level(logging.WARNING):
        async with EmbeddedCluster(data_dir=tmp_path, settings=settings) as cluster:
            health = await asyncio.to_thread(Api(cluster.http, timeout_s=30).health)
            node = cluster._running[1]
            assert isinstance(node, Node)
            broker = node.endpoints.broker_http
            assert health["insecure"] is insecure
            assert f'"insecure":{str(insecure).lower()}' in (await get(f"{broker}/health")).replace(" ", "")
            assert f"pytubemq_master_insecure {int(insecure)}.0\n" in await get(f"{cluster.http}/metrics")
            assert f"pytubemq_broker_insecure {int(insecure)}.0\n" in await get(f"{broker}/metrics")
            for page in (f"{cluster.http}/", f"{cluster.http}/webapi.htm", f"{broker}/", f"{broker}/broker.htm"):
                text = await get(page, **HTML)
                assert ("insecure = true" in text) is insecure
                assert ("security.authentication = &quot;off&quot; asks nobody who it is" in text) is insecure
            shown = await asyncio.to_thread(health_in_words, cluster.http)
            assert re.search(rf"^insecure +{'yes' if insecure else 'no'}$", shown, re.MULTILINE), shown
    assert ("insecure = true" in caplog.text) is insecure


def health_in_words(url: str) -> str:
    """What `pytubemq cluster health` shows."""
    command = [sys.executable, "-m", "pytubemq", "cluster", "health", "--http", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


async def test_what_a_server_writes_is_its_users_alone(tmp_path: Path) -> None:
    place = tmp_path / "made" / "data"
    async with EmbeddedCluster(data_dir=place) as cluster:
        await cluster.create_topic("demo")
        async with pytubemq.connect(cluster.master) as tube, tube.producer("demo") as producer:
            await producer.send(b"1")
        open_to_others = {
            str(path.relative_to(tmp_path)): oct(mode)
            for path in (tmp_path / "made", *(tmp_path / "made").rglob("*"))
            if (mode := stat.S_IMODE(path.lstat().st_mode)) & 0o077
        }
    assert open_to_others == {}
    names = {path.name for path in place.rglob("*")}
    assert {"meta.db", "meta.seal", "topics.json", "lock"} <= names
