"""Requests that wait at the Broker keep what they need and nothing of what they came in."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from pytubemq.model.limits import MIB
from pytubemq.wire.fast.sends import SendTemplate
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.messages.broker import GetMessageRequestC2B, SendMessageResponseB2P
from pytubemq.wire.protocol.messages.extension import ReadRangeRequestC2B
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.scenario.broker.held_writes import HeldWrites
from tests.scenario.broker.support import connected, running
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

CALLS = 20
UNKNOWN = encode_varint(4000 << 3 | 2) + encode_varint(MIB) + bytes(MIB)
"""A field that nobody knows."""


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("method", [Method.READ_RANGE_C2B, Method.GET_MESSAGE_C2B])
async def test_a_held_fetch_keeps_nothing_of_its_request(method: Method) -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.register()
        fetch = (
            ReadRangeRequestC2B(
                client_id=peer.client_id, topic_name="demo", partition_id=0, offset=0, max_wait_ms=15_000
            )
            if method is Method.READ_RANGE_C2B
            else GetMessageRequestC2B(
                client_id=peer.client_id, topic_name="demo", partition_id=0, group_name="g", max_wait_ms=15_000
            )
        )
        body = encode(fetch) + UNKNOWN
        assert broker._state is not None
        waiters = broker._state.waiters
        before = tracemalloc.get_traced_memory()[0]
        held = []
        for count in range(CALLS):  # one at a time, so that nothing lies in the sockets
            held.append(peer.connection.call(method, 2, body, timeout_s=20))
            await until(lambda count=count: len(waiters) == count + 1)  # type: ignore[misc]
        assert tracemalloc.get_traced_memory()[0] - before < CALLS * MIB / 4
        assert (await peer.send()).success
        await asyncio.gather(*held)


@pytest.mark.usefixtures("traced")
async def test_a_send_that_waits_keeps_its_payload_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, connected(broker) as peer:
        writes = HeldWrites(broker, monkeypatch)
        first = asyncio.create_task(peer.send())
        await until(lambda: writes.entered == 1)
        body = SendTemplate(peer.client_id, "demo", 0).encode(0, bytes(MIB), 0)
        assert broker._state is not None
        path = broker._state.path
        before = tracemalloc.get_traced_memory()[0]
        sends = []
        for count in range(CALLS):
            sends.append(peer.connection.call(Method.SEND_MESSAGE_P2B, 3, body, timeout_s=20))
            await until(lambda count=count: path.staged_bytes > (count + 1) * MIB)  # type: ignore[misc]
        assert tracemalloc.get_traced_memory()[0] - before < CALLS * MIB * 1.5
        writes.go.set()
        assert (await first).success
        assert all(decode(SendMessageResponseB2P, answer.body).success for answer in await asyncio.gather(*sends))
