"""A Broker that lets nobody in, at a Master that sends no users and permissions, as no Java Master does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.server.compose import ROLES, Node
from pytubemq.server.sources import load_settings
from tests.scenario.security.secured import ANY, address_of, cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_it_says_why_it_refuses_everybody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path / "master", "off") as node:
        flags: dict[str, object] = {
            "data": str(tmp_path / "broker"), "log.level": "warning", "security.authentication": "enforced",
            "broker.id": 2, "broker.masters": [address_of(node)], "broker.listen": "127.0.0.2:0",
            "broker.http_listen": ANY,
        }  # fmt: skip
        broker = Node(load_settings(None, environ={}, flags=flags), ROLES["broker"])
        await broker.start()
        try:
            service = broker.broker
            assert service is not None
            await until(lambda: service.health()["registered"])
            problems = service.health()["problems"]
            assert any("under a Java Master" in problem for problem in problems), problems
            assert caplog.text.count("every caller is refused") == 1
        finally:
            await broker.close()
