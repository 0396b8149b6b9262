"""A server of one method with a TLS port."""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING, Any

from pytubemq.net.server.server import RpcServer, ServerLimits
from pytubemq.net.tls.alerts import AlertingContext
from pytubemq.net.tls.reload import ReloadingContext, reloading_server
from tests.unit.net.serving import CLOSE, LOOPBACK, answer_ok

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.model.ids import Address
    from pytubemq.net.server.call import Handler
    from pytubemq.net.tls.contexts import ServerFiles
    from tests.support.certificates import Pair


@contextlib.asynccontextmanager
async def serving_tls(
    files: ServerFiles | ReloadingContext, handler: Handler = answer_ok, **limits: Any
) -> AsyncIterator[tuple[RpcServer, Address, Address]]:
    """The server, its plain address and its TLS address."""
    server = RpcServer({int(CLOSE): handler}, offered=frozenset({1}), name="master", limits=ServerLimits(**limits))
    tls = files if isinstance(files, ReloadingContext) else reloading_server(files)
    plain = await server.bind(LOOPBACK)
    secure = server.bind_tls(LOOPBACK, tls)
    await server.open()
    try:
        yield server, plain, secure
    finally:
        await server.close()


def unchecked(pair: Pair, client_ca: str | None = None) -> ReloadingContext:
    """A server's context with a certificate that ours would refuse to load."""

    def make() -> ssl.SSLContext:
        context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
        return context

    return ReloadingContext(make, (pair.cert, pair.key))
