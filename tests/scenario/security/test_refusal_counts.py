"""Metrics of what access control refuses, and of what it would refuse where it is permissive."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from typing import TYPE_CHECKING

import pytest

from pytubemq import connect
from pytubemq.errors import NotAllowedError
from pytubemq.security.credentials import Credentials
from tests.scenario.security.secured import address_of, cluster, user

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.server.compose import Node

pytestmark = pytest.mark.anyio


async def counts(node: Node, role: str, name: str) -> dict[str, float]:
    """The values of a metric by the reason."""
    url = node.endpoints.http if role == "master" else node.endpoints.broker_http

    def read() -> str:
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as response:
            return str(response.read().decode())

    text = await asyncio.to_thread(read)
    found = re.findall(rf'^pytubemq_{role}_access_{name}_total{{reason="(\w+)"}} (\S+)$', text, re.MULTILINE)
    return {reason: float(value) for reason, value in found}


async def try_to_produce(node: Node, credentials: Credentials | None) -> None:
    async with connect(address_of(node), credentials=credentials) as tube, tube.producer("orders") as producer:
        await producer.send(b"x")


async def test_refusals_are_counted_by_reason(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        reader = await user(node, "reader", "consume topic orders")
        before = await counts(node, "master", "refused")
        for credentials in (None, Credentials.of("reader", "w" * 43), Credentials.of("nobody", "w" * 43), reader):
            with pytest.raises(NotAllowedError):
                await try_to_produce(node, credentials)
        after = await counts(node, "master", "refused")
        assert before == {}
        assert {reason for reason, count in after.items() if count} == {"unsigned", "credentials"}
        assert after["credentials"] >= 2 * after["unsigned"] >= 2
        assert (await counts(node, "broker", "refused")).keys() == {"permission"}
        assert await counts(node, "master", "would_refuse") == {}


async def test_permissive_serves_and_counts_what_would_be_refused_also_at_brokers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, "permissive") as node:
        writer = await user(node, "writer", "produce topic orders")
        await try_to_produce(node, writer)
        assert await counts(node, "master", "would_refuse") == {}
        assert await counts(node, "broker", "would_refuse") == {}
        reader = await user(node, "reader", "consume topic orders")
        for credentials, reason, text in (
            (reader, "permission", "would be refused: user reader lacks the permission produce on topic orders"),
            (None, "token", "would be refused: this cluster requires authentication"),
        ):
            await try_to_produce(node, credentials)
            assert (await counts(node, "broker", "would_refuse"))[reason] >= 1
            assert text in caplog.text
        assert (await counts(node, "master", "would_refuse")).keys() == {"unsigned"}
        assert await counts(node, "master", "refused") == {}
        assert await counts(node, "broker", "refused") == {}


async def test_one_connection_is_counted_once_and_not_with_each_message(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path, "permissive") as node,
        connect(address_of(node)) as tube,
        tube.producer("orders") as producer,
    ):
        for number in range(50):
            await producer.send(b"%d" % number)
        assert (await counts(node, "broker", "would_refuse"))["token"] <= 2
