"""The protocol's port of a standby Master.

The invariant: every request gets an exception by which the original's clients and ours recognize a standby, so they try
the next Master; one that cannot be read gets the fault that a leading Master would report.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NoReturn

from pytubemq.errors import EnvelopeError
from pytubemq.net.server.server import RpcServer, ServerLimits
from pytubemq.wire.rpc.methods import METHODS, Service
from pytubemq.wire.serialization.message_bytes import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.model.ids import Address
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Call
    from pytubemq.net.tls.reload import ReloadingContext

logger = logging.getLogger(__name__)

STANDBY_EXCEPTION: Final = "org.apache.inlong.tubemq.corerpc.exception.StandbyException"
"""The class by which the original's clients recognize a standby."""


def standby_error(leader: str) -> EnvelopeError:
    """Return the error of a request to a Master that does not lead.

    `leader` is the address of the one that does, blank if it is not known. The text has no `#`: Java cuts a text there.
    """
    named = f"{leader} leads" if leader else "no Master is known to lead"
    return EnvelopeError(f"this Master stands by; {named}", exception_name=STANDBY_EXCEPTION, fatal=False)


def check_leads(leads: Callable[[], bool]) -> None:
    """Refuse a request as a standby does if this Master no longer leads.

    Raises:
        EnvelopeError: `leads()` is False.
    """
    if not leads():
        raise standby_error("")


class StandbyServer:
    """Server on the Master's ports while another Master leads."""

    def __init__(self, leader: Callable[[], str], *, clock: Clock, max_connections: int) -> None:
        """`leader` returns the address of the Master that leads, blank if none is known."""
        self._leader = leader
        offered = frozenset({Service.MASTER})
        self._server = RpcServer(
            {method: self._refuse for method, spec in METHODS.items() if spec.services & offered},
            offered=offered,
            name="master",
            clock=clock,
            limits=ServerLimits(max_connections=max_connections),
        )

    async def open(
        self, listen: Address, *, plain: bool = True, tls_listen: Address | None = None, tls: ReloadingContext | None
    ) -> Address:
        """Open the ports; return the address in use.

        Raises:
            ConfigError: one of them cannot be used.
        """
        address = await self._server.bind(listen)
        if tls is not None and tls_listen is not None:
            self._server.bind_tls(tls_listen, tls)
        await self._server.open(plain=plain)
        logger.info("this Master stands by on %s", address)
        return address

    async def close(self) -> None:
        """Close the ports. Idempotent."""
        await self._server.close(grace_s=0.0)

    def _refuse(self, call: Call) -> NoReturn:
        decode(METHODS[call.request.method].request, call.request.body)
        raise standby_error(self._leader())
