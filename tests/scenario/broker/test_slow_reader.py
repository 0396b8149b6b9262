"""A peer that asks for much and reads slowly: little is held for it, it gets all, and nobody else waits for it."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq.model.limits import MIB
from pytubemq.wire.batch.stored import decode_read_range
from pytubemq.wire.framing.frame import FrameDecoder
from pytubemq.wire.protocol.messages.extension import ReadRangeRequestC2B
from pytubemq.wire.rpc.envelope import decode_response, encode_request
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import encode
from tests.scenario.broker.support import applied, connected, item, running
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

REQUESTS = 100


@pytest.mark.parametrize("from_disk", [False, True])
async def test_many_large_fetches_of_a_slow_reader(from_disk: bool) -> None:
    async with running() as broker, connected(broker) as peer:
        for _ in range(2):
            await peer.send_each([item(bytes(MIB // 2)) for _ in range(2)])
        if from_disk:
            await applied(broker)
        reader, writer = await asyncio.open_connection(broker.address.host, broker.address.port, limit=65_536)
        request = ReadRangeRequestC2B(client_id="slow", topic_name="demo", partition_id=0, offset=0, max_bytes=2 * MIB)
        for serial in range(REQUESTS):
            body = [encode(request)]
            writer.writelines(
                encode_request(serial, service=2, method=Method.READ_RANGE_C2B, timeout_ms=60_000, body=body)
            )
        assert broker._server is not None
        await until(lambda: len(broker._server.connections) == 2)  # type: ignore[union-attr]
        slow = next(c for c in broker._server.connections if c.peer.endswith(str(_port(writer))))
        await until(lambda: slow.paused)
        assert (await peer.send(b"another is served meanwhile")).success
        assert slow._transport is not None
        assert slow._transport.get_write_buffer_size() < 16 * MIB
        decoder = FrameDecoder()
        serials: list[int] = []
        while len(serials) < REQUESTS:
            data = await reader.read(MIB)
            assert data, "it is not cut off"
            for frame in decoder.feed(data):
                _, messages = decode_read_range(decode_response(frame).body)
                assert len(messages) == 4
                serials.append(frame.serial)
        assert sorted(serials) == list(range(REQUESTS))
        writer.close()
        await writer.wait_closed()


def _port(writer: asyncio.StreamWriter) -> int:
    port: int = writer.get_extra_info("sockname")[1]
    return port
