"""Connections that are shared, and those that could not be made."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from pytubemq.errors import UnreachableError
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.client.pool import ConnectionPool
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
NOWHERE = Address("127.0.0.1", 1)


async def test_an_attempt_that_fails_when_nobody_waits_any_more_leaves_no_error_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context))
    reached, fail = asyncio.Event(), asyncio.Event()

    async def connect(peer: Address, **options: Any) -> RpcConnection:
        reached.set()
        await fail.wait()
        raise UnreachableError(f"cannot connect to {peer}")

    monkeypatch.setattr(RpcConnection, "connect", connect)
    pool = ConnectionPool()
    asking = asyncio.create_task(pool.get(NOWHERE))
    await reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    fail.set()
    await until(lambda: not pool._connecting)
    gc.collect()
    await asyncio.sleep(0)
    gc.collect()
    assert found == []
    with pytest.raises(UnreachableError):
        await pool.get(NOWHERE)
    await pool.close()
