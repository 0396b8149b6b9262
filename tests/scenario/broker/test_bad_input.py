"""Bytes that are not the protocol: that connection ends after a bounded wait, the Broker and everyone else go on."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import Code, RemoteError
from pytubemq.net.server.server import ServerLimits
from pytubemq.wire.batch.payload import encode_payload
from pytubemq.wire.fast import sends
from pytubemq.wire.framing.frame import Frame, FrameDecoder
from pytubemq.wire.protobuf.schema import Status
from pytubemq.wire.protocol.messages.broker import SendMessageResponseB2P
from pytubemq.wire.rpc.envelope import decode_response
from pytubemq.wire.serialization.message_bytes import decode
from tests.scenario.broker.support import connected, item, running

if TYPE_CHECKING:
    from pytubemq.broker.service import BrokerService

pytestmark = pytest.mark.anyio

MALFORMED = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "vectors" / "malformed.jsonl").read_text().splitlines()
    if '"to": "broker"' in line
]
NOISE = random.Random(7).randbytes(65_536)


async def closed_after(broker: BrokerService, data: bytes) -> bool:
    """Whether the Broker closes a connection that sent this."""
    reader, writer = await asyncio.open_connection(broker.address.host, broker.address.port)
    writer.write(data)
    try:
        async with asyncio.timeout(20):
            while await reader.read(65536):
                pass
    except ConnectionError:
        pass
    writer.close()
    return True


@pytest.mark.parametrize("case", [c for c in MALFORMED if c["answer"] is None], ids=lambda c: c["name"])
async def test_a_fault_in_a_frame_ends_its_connection_only(case: dict[str, str]) -> None:
    async with running() as broker, connected(broker) as peer:
        assert await closed_after(broker, bytes.fromhex(case["sent_hex"]))
        assert (await peer.send()).success


async def test_noise_ends_its_connection_only() -> None:
    async with running() as broker, connected(broker) as peer:
        assert await closed_after(broker, NOISE)
        assert (await peer.send()).success


async def test_half_a_frame_then_silence_is_not_waited_for_for_ever() -> None:
    async with running() as broker, connected(broker) as peer:
        assert broker._server is not None
        broker._server._limits = ServerLimits(frame_timeout_s=0.05)
        assert await closed_after(broker, bytes.fromhex("ff7ff4fe0000000100000001000000646162"))
        assert (await peer.send()).success


@pytest.mark.parametrize("case", [c for c in MALFORMED if c["answer"]], ids=lambda c: c["name"])
async def test_a_fault_in_an_envelope_is_answered_and_the_connection_stays(case: dict[str, str]) -> None:
    async with running() as broker:
        reader, writer = await asyncio.open_connection(broker.address.host, broker.address.port)
        for _ in range(2):
            writer.write(bytes.fromhex(case["sent_hex"]))
            decoder = FrameDecoder()
            frames: list[Frame] = []
            async with asyncio.timeout(20):
                while not frames:
                    frames = decoder.feed(await reader.read(65536))
            assert decode_response(frames[0]).status is Status.FATAL
        writer.close()
        await writer.wait_closed()


async def test_the_reason_names_the_thing() -> None:
    async with running() as broker, connected(broker) as peer:
        assert "nosuch" in (await peer.send(topic="nosuch")).err_msg
        assert "partition 7" in (await peer.send(partition_id=7)).err_msg
        assert "empty" in (await peer.send(b"")).err_msg
        too_large = await peer.send(bytes(2 << 20))
        assert "2097152 bytes" in too_large.err_msg
        peer.client_id = "x" * 1025
        assert "1025 characters" in (await peer.send()).err_msg
        assert "1024 are allowed" in (await peer.register()).err_msg
        peer.client_id = " "
        assert "clientId" in str((await peer.get())[0].err_msg)
        peer.client_id = "c"
        assert "501 filter items" in (await peer.register(filter_cond_str=tuple(map(str, range(501))))).err_msg


@pytest.mark.parametrize("payload", [b"abc", b"\x00\x00\x00\x05abcd", b"\x7f\xff\xff\xffabc"])
async def test_attributes_that_do_not_fit_are_refused_before_they_trouble_a_reader(payload: bytes) -> None:
    async with running() as broker, connected(broker) as peer:
        template = sends.SendTemplate(peer.client_id, "demo", 0)
        response = await peer.connection.call(13, 3, template.encode(0, payload, 1), timeout_s=20)
        answer = decode(SendMessageResponseB2P, response.body)
        assert answer.err_code == 400
        assert "attributes" in answer.err_msg
        many = await peer.send_many([item(b"good"), item(payload)._replace(flag=3), item(payload)])
        assert list(many.err_codes) == [200, 400, 200], "without the flag it is a payload like any other"
        assert "attributes" in many.err_msg
        fitting = encode_payload(b"body", {"a": "b"})
        assert (await peer.send_many([item(fitting[0])._replace(flag=fitting[1])])).success


async def test_the_reserved_method_is_unknown_and_the_connection_goes_on() -> None:
    async with running() as broker, connected(broker) as peer:
        with pytest.raises(RemoteError, match="Unsupported method ID :100"):
            await peer.connection.call(100, 3, b"", timeout_s=20)
        assert (await peer.send()).success


async def test_a_fault_of_the_program_itself_is_answered_and_shown_and_the_next_send_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as broker, connected(broker) as peer:
        assert broker._state is not None
        store = broker._state.store

        def once(staging: object, wall_ms: int) -> object:
            monkeypatch.undo()
            raise ValueError("nobody thought of this")

        monkeypatch.setattr(store, "prepare", once)
        assert (await peer.send()).err_code == Code.INTERNAL_SERVER_ERROR
        assert (await peer.send()).success
        health = broker.health()
        assert health["status"] == "degraded"
        assert any("nobody thought of this" in problem for problem in health["problems"])
