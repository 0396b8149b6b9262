"""Open calls: what they hold is counted and bounded, and hosts have fair shares of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import Code
from pytubemq.model.limits import KIB, MAX_LONG_CALLS, MIB
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.server.hosts import OPEN_CALL_BYTES, Hosts
from pytubemq.net.server.long_work import LongWork
from pytubemq.net.server.waiting_calls import bounded
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.rpc.envelope import encode_request
from pytubemq.wire.serialization.message_bytes import encode
from tests.support.waiting import until
from tests.unit.net.serving import CLOSE, OK, HandClock, ask, serving

if TYPE_CHECKING:
    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

BODY = encode(CloseRequestP2M(client_id="p1"))


def requests(count: int) -> bytes:
    return b"".join(
        part
        for serial in range(1, count + 1)
        for part in encode_request(serial, service=1, method=CLOSE, timeout_ms=600_000, body=[BODY])
    )


async def test_a_call_that_waits_counts_more_than_its_bytes() -> None:
    held: list[Call] = []
    async with serving(held.append) as (server, address):
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(requests(10))
        await until(lambda: len(held) == 10)
        assert server.buffered_bytes == 10 * (OPEN_CALL_BYTES + len(BODY))
        for call in held:
            call.reply(OK)
        assert server.buffered_bytes == 0
        writer.close()


async def test_small_calls_that_wait_are_bounded_and_other_hosts_are_served(caplog: pytest.LogCaptureFixture) -> None:
    held: list[Call] = []

    def hold(call: Call) -> None:
        if call.peer.startswith("127.0.0.2"):
            held.append(call)
        else:
            call.reply(OK)

    clock = HandClock()
    async with serving(hold, clock=clock, max_call_bytes=1 * MIB) as (server, address):
        known = await RpcConnection.connect(address)
        crowd = [
            await asyncio.open_connection(address.host, address.port, local_addr=("127.0.0.2", 0)) for _ in range(5)
        ]
        for _, writer in crowd:
            writer.write(requests(1000))
        await until(lambda: len(server.connections) == 6 and server.is_crowded)
        for _ in range(10):
            assert (await ask(known)).success
        # One connection may have reached the limit before the others got their shares of half of it.
        most = 3 * MIB // 2 // OPEN_CALL_BYTES + 5
        assert len(held) <= most
        assert "reading less from hosts with more than their share" in caplog.text
        answered = 0
        while answered < 5000:  # as they are answered, the others are served
            await until(lambda: bool(held))
            assert len(held) <= most
            for call in held[:]:
                call.reply(OK)
                answered += 1
                held.remove(call)
            server._check_connections()
        for _, writer in crowd:
            writer.close()
        await known.close()
        await until(lambda: not server.connections)
        server._check_connections()
        assert (server.buffered_bytes, server.unserved_bytes, server.is_crowded) == (0, 0, False)


async def test_long_work_of_one_connection_is_refused_beyond_some_waiting_calls() -> None:
    turns = LongWork(most=1)
    go_on = asyncio.Event()

    async def work(call: Call) -> None:
        async with turns.request(call.connection):
            await go_on.wait()
            call.reply(OK)

    def refusal(text: str) -> bytes:
        return encode(CloseResponseM2P(success=False, err_code=Code.SERVICE_UNAVAILABLE, err_msg=text))

    async with serving(bounded(work, refusal)) as (_, address):
        connection, other = await RpcConnection.connect(address), await RpcConnection.connect(address)
        waiting = [asyncio.create_task(ask(connection)) for _ in range(MAX_LONG_CALLS)]
        await asyncio.sleep(0)
        refused = await ask(connection)
        assert (refused.success, refused.err_code) == (False, Code.SERVICE_UNAVAILABLE)
        assert "64 requests of this connection" in (refused.err_msg or "")
        waiting.append(asyncio.create_task(ask(other)))
        go_on.set()
        assert all(answer.success for answer in await asyncio.gather(*waiting))
        assert (await ask(connection)).success, "there is room again"
        await connection.close()
        await other.close()


class Member:
    """A connection as the sums by host see it."""

    last_byte_s = 0.0
    open_calls = 0


def test_who_needs_less_than_an_equal_part_keeps_it_and_the_others_share_the_rest() -> None:
    hosts = Hosts()
    needs = {"a": 10 * KIB, "b": 900 * KIB, "c": 500 * KIB}
    known = {name: hosts.enter(name, Member()) for name in needs}
    for name, need in needs.items():
        known[name].buffered_bytes = need + 7
        known[name].unserved_bytes = 7
    second = Member()
    hosts.enter("b", second)
    hosts.share_calls(810 * KIB)
    assert {name: hosts.call_share_bytes(host) for name, host in known.items()} == {
        "a": None,
        "b": 200 * KIB,
        "c": 400 * KIB,
    }
    hosts.share_calls(2000 * KIB)
    assert all(hosts.call_share_bytes(host) is None for host in known.values())
    hosts.share_calls(0)
    assert hosts.call_share_bytes(known["c"]) == 8 * OPEN_CALL_BYTES, "some are always allowed"
