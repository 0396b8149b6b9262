"""Names that a terminal or a log would obey are refused by a Master, whoever brings them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytubemq.wire.protocol.messages.master import (
    CloseRequestC2M,
    CloseResponseM2C,
    HeartRequestP2M,
    HeartResponseM2P,
    RegisterRequestC2MV2,
    RegisterRequestP2M,
    RegisterResponseM2CV2,
    RegisterResponseM2P,
)
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import FakeConsumer, FakeProducer, Peer, town

pytestmark = pytest.mark.anyio

BAD = ["g\n2026-01-31T12:00:00.000Z ERROR forged", "g\x1b[2J", "g\x9b2J", "g\u202eh", "g\u2028h", "g\x00h"]


@pytest.mark.parametrize("bad", BAD)
async def test_a_consumer(bad: str) -> None:
    async with town() as t:
        peer = await t.peer(FakeConsumer)
        good = {"client_id": "c", "group_name": "g", "host_name": "h", "topic_list": ("demo",)}
        for field in ("client_id", "group_name", "host_name", "topic_list"):
            value = (bad,) if field == "topic_list" else bad
            answer = await peer.ask_register(**{**good, field: value})
            assert (answer.err_code, answer.err_msg.isprintable()) == (400, True)
        close = CloseRequestC2M(client_id="c", group_name=bad)
        assert (await peer.ask(close, CloseResponseM2C, Method.CONSUMER_CLOSE_C2M)).err_code == 400


@pytest.mark.parametrize("bad", BAD)
async def test_a_producer(bad: str) -> None:
    async with town() as t:
        peer = await t.peer(FakeProducer)
        named: list[dict[str, Any]] = [{"client_id": bad}, {"host_name": bad}, {"topic_list": (bad,)}]
        for fields in named:
            sound = RegisterRequestP2M(client_id="p", broker_check_sum=-1, host_name="h")
            request = replace(sound, **fields)
            answer = await peer.ask(request, RegisterResponseM2P, Method.PRODUCER_REGISTER_P2M)
            assert (answer.err_code, answer.err_msg.isprintable()) == (400, True)
        assert (await peer.register()).success
        beat = HeartRequestP2M(client_id=peer.client_id, broker_check_sum=-1, host_name="h", topic_list=(bad,))
        assert (await peer.ask(beat, HeartResponseM2P, Method.PRODUCER_HEARTBEAT_P2M)).err_code == 400


@pytest.mark.parametrize("bad", BAD)
async def test_a_consumer_whose_group_divides_the_partitions(bad: str) -> None:
    async with town() as t:
        peer = await t.peer(Peer)
        request = RegisterRequestC2MV2(
            client_id="c", host_name="h", group_name=bad, topic_list=("demo",), source_count=0, node_id=0
        )
        answer = await peer.ask(request, RegisterResponseM2CV2, Method.CONSUMER_REGISTER_C2M_V2)
        assert (answer.err_code, answer.err_msg.isprintable()) == (400, True)


@pytest.mark.parametrize("group", ["grüppe-1", "消費者", "a b", "G_1-x"])
async def test_groups_of_other_peers_are_taken(group: str) -> None:
    async with town() as t:
        await t.broker()
        peer = await t.peer(FakeConsumer)
        answer = await peer.ask_register(client_id="c", group_name=group, host_name="h", topic_list=("demo",))
        assert answer.err_code == 431, "all that is wrong is that there is no such topic"
