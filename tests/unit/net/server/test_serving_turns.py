"""Turns of connections whose requests take long: hosts first, then connections, one slice for all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pytubemq.model.limits import PUT_OFF_SLICE_S, SERVING_SLICE_S
from pytubemq.net.server.serving_turns import ServingTurns
from pytubemq.wire.protocol.messages.master import CloseRequestP2M
from pytubemq.wire.rpc.envelope import encode_request
from pytubemq.wire.serialization.message_bytes import encode
from tests.support.waiting import until
from tests.unit.net.serving import CLOSE, OK, HandClock, serving

if TYPE_CHECKING:
    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

BODY = encode(CloseRequestP2M(client_id="p1"))


class Peer:
    """A connection with a number of requests that take a millisecond each."""

    def __init__(self, host: str, clock: HandClock, requests: int, served: list[Peer]) -> None:
        self.host = host
        self._clock = clock
        self.requests = requests
        self._served = served

    def serve_put_off(self, until_s: float) -> bool:
        while self.requests:
            self.requests -= 1
            self._served.append(self)
            self._clock.now += 0.001
            if self._clock.now > until_s:
                break
        return self.requests > 0


async def test_hosts_take_turns_and_all_together_have_one_slice_in_a_turn_of_the_loop() -> None:
    clock, served = HandClock(), list[Peer]()
    turns = ServingTurns(clock)
    crowd = [Peer("crowd", clock, 20, served) for _ in range(160)]
    other = Peer("other", clock, 20, served)
    for peer in [*crowd, other]:
        turns.add(peer)
    while other.requests:
        before = clock.now
        await asyncio.sleep(0)
        assert clock.now - before <= 2 * PUT_OFF_SLICE_S
    assert len(served) <= 3 * 20, "beside 160 connections of one host, another host has half of the time"
    await until(lambda: not turns.waiting)
    at_first = Counter(id(peer) for peer in served[:400])
    assert max(at_first.values()) <= 20
    assert not turns.waiting


async def test_a_connection_that_ended_has_no_turn() -> None:
    clock, served = HandClock(), list[Peer]()
    turns = ServingTurns(clock)
    gone, there = Peer("a", clock, 3, served), Peer("b", clock, 3, served)
    turns.add(gone)
    turns.add(there)
    turns.remove(gone)
    turns.remove(gone)
    await until(lambda: not turns.waiting)
    assert served == [there] * 3


def requests(count: int) -> bytes:
    return b"".join(
        part
        for serial in range(1, count + 1)
        for part in encode_request(serial, service=1, method=CLOSE, timeout_ms=600_000, body=[BODY])
    )


@pytest.mark.slow
async def test_who_waits_for_each_response_is_served_beside_160_connections_that_do_not() -> None:
    """Without turns each of these has a slice in each turn of the loop, so the other one waits for 160 of them."""
    clock = HandClock()
    served: list[str] = []

    def slow(call: Call) -> None:
        served.append(call.peer.partition(":")[0])
        clock.now += SERVING_SLICE_S / 5
        call.reply(OK)

    async with serving(slow, clock=clock) as (server, address):
        reader, writer = await asyncio.open_connection(address.host, address.port, local_addr=("127.0.0.3", 0))
        crowd = [
            await asyncio.open_connection(address.host, address.port, local_addr=("127.0.0.2", 0)) for _ in range(160)
        ]
        for _, attacker in crowd:
            attacker.write(requests(2000))
        await until(lambda: len(served) > 1000)
        between: list[int] = []
        for _ in range(20):
            before = len(served)
            writer.write(requests(1))
            assert await reader.read(1 << 16)
            between.append(len(served) - before)
        assert served.count("127.0.0.3") == 20
        assert max(between) <= 30, "160 slices would be 800 requests"
        for _, attacker in crowd:
            attacker.close()
        writer.close()
        await until(lambda: not server.connections)
        assert server.buffered_bytes == server.unserved_bytes == 0
