"""A server of one method on a real socket, a client's question to it, and a clock that is turned by hand."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytubemq.model.ids import Address
from pytubemq.net.server.server import RpcServer, ServerLimits
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Call, Handler
    from pytubemq.net.server.connection import ServerConnection

LOOPBACK = Address("127.0.0.1", 0)
CLOSE = Method.PRODUCER_CLOSE_P2M
OK = encode(CloseResponseM2P(success=True, err_code=200, err_msg="OK!"))


class HandClock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def now_s(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)


def answer_ok(call: Call) -> None:
    call.reply(OK)


@contextlib.asynccontextmanager
async def serving(
    handler: Handler = answer_ok,
    *,
    clock: Clock | None = None,
    on_connection_lost: Callable[[ServerConnection], None] | None = None,
    **limits: Any,
) -> AsyncIterator[tuple[RpcServer, Address]]:
    server = RpcServer(
        {int(CLOSE): handler},
        offered=frozenset({1}),
        name="master",
        clock=clock,
        on_connection_lost=on_connection_lost,
        limits=ServerLimits(**limits),
    )
    address = await server.start(LOOPBACK)
    try:
        yield server, address
    finally:
        await server.close()


async def ask(connection: RpcConnection, *, timeout_s: float = 5.0) -> CloseResponseM2P:
    request = CloseRequestP2M(client_id="p1")
    return await connection.request(request, CloseResponseM2P, CLOSE, Service.MASTER, timeout_s=timeout_s)
