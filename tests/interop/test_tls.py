"""Clients that TLS servers of either system refuse; that they serve all others, the matrix shows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.errors import TlsError, TubeError
from pytubemq.model.tls_options import TlsOptions

from .fetch import fetch
from .safe_system import TOPIC, SafeSystem
from .system import COLUMNS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.anyio, pytest.mark.timeout(600)]

ENOUGH_S = 60.0


@pytest.fixture(params=(COLUMNS[0], COLUMNS[1]))
async def system(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SafeSystem]:
    master, _, broker = request.param.partition(" + ")
    running = SafeSystem(tmp_path, fetch())
    try:
        await running.start(java_master="Java" in master, java_broker="Java" in broker)
        yield running
    finally:
        await running.close()


async def test_clients_without_a_certificate_are_refused_by_both(system: SafeSystem) -> None:
    with pytest.raises(TlsError):
        await _ask(system.master, TlsOptions(system.options.ca))
    with pytest.raises(TubeError):
        await _ask(system.master, None)


async def _ask(master: str, options: TlsOptions | None) -> None:
    async with asyncio.timeout(ENOUGH_S), pytubemq.connect(master, tls=options) as tube:
        await tube.partitions(TOPIC)
