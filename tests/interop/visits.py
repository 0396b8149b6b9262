"""The row of those who come to a Broker past the Master, which has told its Brokers to look at visit tokens.

Only a Java Master tells that, so the row runs in its two columns; all their other rows run under the same check.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pytubemq.wire.protocol.messages.broker import (
    AuthorizedInfo,
    RegisterRequestC2B,
    RegisterResponseB2C,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
)
from pytubemq.wire.protocol.messages.master import RegisterRequestP2M, RegisterResponseM2P
from tests.scenario.peers.foreign import Foreign, Ways
from tests.scenario.peers.session import broker_addresses

from .bench import CellError, JavaReader, OurReader
from .ledger import Received
from .live import wait_for

if TYPE_CHECKING:
    from .bench import Bench

MASTER, READ, WRITE = 1, 2, 3
DONE, REFUSED = 200, 415
SENT = 500
STRANGE = b"past the Master"
"""A message that a Broker has taken from somebody with a token."""
WAYS = Ways(protocol_version=3, first_serial=1)


async def past_the_master(bench: Bench) -> dict[str, Any]:
    """Who comes past the Master is refused."""
    topic = bench.column.topic("visits")
    stranger, checked_s = await until_checked(bench)
    await stranger.expect(REFUSED, None, AuthorizedInfo(visit_authorized_token=stranger.token + 1))
    java, ours = JavaReader(bench, "visits_java", Received()), OurReader(bench, "visits_ours", Received())
    await asyncio.gather(
        bench.java_send(topic, f"{topic}-java", SENT, sync=True),
        bench.our_send(topic, f"{topic}-ours", SENT),
        java.start({topic: []}, push=False),
        ours.start({topic: []}),
    )
    for reader in (java, ours):
        await bench.check(reader.got, {topic: []})
        await reader.close()
    await stranger.expect(REFUSED, None, AuthorizedInfo(visit_authorized_token=-2))
    await stranger.expect(DONE, AuthorizedInfo(visit_authorized_token=await stranger.admitted()))
    return {"messages": bench.sent(topic).count, "checked_s": checked_s}


async def until_checked(bench: Bench) -> tuple[Stranger, float]:
    """Somebody whom the Broker refuses, and the seconds until it did.

    A Broker lets every token pass for a while after it has registered.
    """
    stranger = await Stranger.come(bench, bench.column.topic("visits"))

    async def checked() -> bool:
        return await stranger.registers(None) == REFUSED

    return stranger, await wait_for("the Broker looks at visit tokens", checked)


class Stranger:
    """Requests to the Broker with whatever token."""

    def __init__(self, bench: Bench, topic: str, master: Foreign) -> None:
        self._bench, self._topic, self._master = bench, topic, master
        self._broker: Foreign | None = None
        self.token = 0
        self.id = f"{bench.column.prefix}-stranger"

    @classmethod
    async def come(cls, bench: Bench, topic: str) -> Stranger:
        """Connect, and learn where the Broker is."""
        made = cls(bench, topic, await Foreign.connect(WAYS, bench.column.masters))
        bench.closing.append(made._master.close)
        await made.admitted()
        return made

    async def admitted(self) -> int:
        """Register at the Master; the token it gives."""
        answer = await self._master.ask(
            RegisterRequestP2M(client_id=self.id, broker_check_sum=-1, host_name="127.0.0.1"),
            RegisterResponseM2P, 1, MASTER,
        )  # fmt: skip
        if answer.authorized_info is None:
            raise CellError(f"the Master gives no token: {answer}")
        if self._broker is None:
            address = broker_addresses(answer.broker_infos)[self._bench.column.broker_id]
            self._broker = await Foreign.connect(WAYS, address)
            self._bench.closing.append(self._broker.close)
        self.token = answer.authorized_info.visit_authorized_token
        return self.token

    async def expect(self, code: int, *tokens: AuthorizedInfo | None) -> None:
        """A registration and a send with each of these must be answered with this code."""
        for token in tokens:
            found = await self.registers(token), await self.sends(token)
            if found != (code, code):
                raise CellError(f"{token}: registration and send are answered with {found}, not with {code}")

    async def registers(self, token: AuthorizedInfo | None) -> int:
        """The code of a consumer's registration."""
        assert self._broker is not None
        answer = await self._broker.ask(
            RegisterRequestC2B(
                op_type=31, client_id=self.id, group_name=self._bench.column.group("stranger"), topic_name=self._topic,
                partition_id=0, read_status=0, auth_info=token,
            ),
            RegisterResponseB2C, 15, READ,
        )  # fmt: skip
        return answer.err_code

    async def sends(self, token: AuthorizedInfo | None) -> int:
        """The code of a send."""
        assert self._broker is not None
        answer = await self._broker.ask(
            SendMessageRequestP2B(
                client_id=self.id, topic_name=self._topic, partition_id=0, data=STRANGE, flag=0,
                check_sum=-1, sent_addr=0, auth_info=token,
            ),
            SendMessageResponseB2P, 13, WRITE,
        )  # fmt: skip
        return answer.err_code
