"""A real Master on loopback, and raw peers that speak to it."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pytubemq.errors import ConnectionLostError
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.master import (
    ClusterConfig,
    EventProto,
    HeartRequestB2M,
    HeartRequestC2M,
    HeartRequestP2M,
    HeartResponseM2B,
    HeartResponseM2C,
    HeartResponseM2P,
    RegisterRequestB2M,
    RegisterRequestC2M,
    RegisterRequestP2M,
    RegisterResponseM2B,
    RegisterResponseM2C,
    RegisterResponseM2P,
)
from pytubemq.wire.rpc.methods import Method, Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


T = TypeVar("T")
LISTEN = Address("127.0.0.1", 0)
WAIT_MS = 10_000


class Peer:
    """A connection to the Master with the calls spelt out."""

    def __init__(self, connection: RpcConnection) -> None:
        self.connection = connection

    async def ask(self, message: Any, answer: type[T], method: Method) -> T:
        return await self.connection.request(message, answer, method, Service.MASTER, timeout_s=20)

    async def close(self) -> None:
        await self.connection.close()


class FakeBroker(Peer):
    """A Broker that carries whatever it is told to."""

    broker_id = 1
    address = Address("127.0.0.9", 8123)
    sync = (0, 0)
    report = False
    defaults: str | None = None
    topics: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()
    web_port: int | None = None
    reports: tuple[str, tuple[str, ...]] = ("", ())
    """The defaults and topics that it registers with."""
    tls_port = 8124

    async def register(self) -> RegisterResponseM2B:
        return await self.register_as(f"{self.broker_id}:{self.address}:2.4.0")

    async def register_as(self, client_id: str) -> RegisterResponseM2B:
        self.sync = (0, 0)
        answer = await self.ask(
            RegisterRequestB2M(
                client_id=client_id,
                broker_online=False,
                enable_tls=False,
                read_status_rpt=0,
                write_status_rpt=0,
                cur_broker_conf_id=0,
                conf_check_sum_id=0,
                broker_default_conf_info=self.reports[0],
                broker_topic_set_conf_info=self.reports[1],
                flow_check_id=-2,
                tls_port=self.tls_port,
                cls_config=ClusterConfig(config_id=-2),
                leases=self.leases,
                own_web_port=self.web_port,
            ),
            RegisterResponseM2B,
            Method.BROKER_REGISTER_B2M,
        )
        if answer.success:
            self.take(answer)
        return answer

    def take(self, answer: RegisterResponseM2B | HeartResponseM2B) -> None:
        self.sync = (answer.cur_broker_conf_id or 0, answer.conf_check_sum_id or 0)
        if answer.take_conf_info:
            self.defaults = answer.broker_default_conf_info
            self.topics = answer.broker_topic_set_conf_info
            self.report = True

    async def heartbeat(self, *, wait_ms: int | None = None, **more: Any) -> HeartResponseM2B:
        report, self.report = self.report, False
        request = HeartRequestB2M(
            broker_id=str(self.broker_id),
            broker_online=True,
            read_status_rpt=0,
            write_status_rpt=0,
            cur_broker_conf_id=self.sync[0],
            conf_check_sum_id=self.sync[1],
            take_conf_info=report,
            take_removed_topic_info=False,
            broker_default_conf_info=self.defaults if report else None,
            broker_topic_set_conf_info=self.topics if report else (),
            flow_check_id=-2,
            cls_config=ClusterConfig(config_id=-2),
            max_wait_ms=wait_ms,
        )
        answer = await self.ask(replace(request, **more), HeartResponseM2B, Method.BROKER_HEARTBEAT_B2M)
        if answer.success:
            self.take(answer)
        return answer

    async def serve(self) -> None:
        """Heartbeat after heartbeat, until cancelled or cut off."""
        with suppress(ConnectionLostError):
            while (await self.heartbeat(wait_ms=WAIT_MS)).success:
                pass


class FakeProducer(Peer):
    client_id = "127.0.0.1-1-1-1-1.0"
    checksum = -1

    async def register(self) -> RegisterResponseM2P:
        answer = await self.ask(
            RegisterRequestP2M(client_id=self.client_id, broker_check_sum=-1, host_name="127.0.0.1"),
            RegisterResponseM2P,
            Method.PRODUCER_REGISTER_P2M,
        )
        self.checksum = answer.broker_check_sum
        return answer

    async def heartbeat(
        self, *topics: str, wait_ms: int | None = None, want_deployed: bool | None = None
    ) -> HeartResponseM2P:
        answer = await self.ask(
            HeartRequestP2M(
                client_id=self.client_id,
                broker_check_sum=self.checksum,
                host_name="127.0.0.1",
                topic_list=topics,
                max_wait_ms=wait_ms,
                want_deployed=want_deployed,
            ),
            HeartResponseM2P,
            Method.PRODUCER_HEARTBEAT_P2M,
        )
        self.checksum = answer.broker_check_sum
        return answer


class FakeConsumer(Peer):
    group = "g"
    client_id = "g_127.0.0.1-1-1-1-Pull-1.0"

    async def register(self, *topics: str, holds: tuple[str, ...] = (), **more: Any) -> RegisterResponseM2C:
        return await self.ask_register(
            client_id=self.client_id,
            group_name=self.group,
            host_name="127.0.0.1",
            topic_list=topics or ("demo",),
            subscribe_info=holds,
            **more,
        )

    async def ask_register(self, **fields: Any) -> RegisterResponseM2C:
        return await self.ask(RegisterRequestC2M(**fields), RegisterResponseM2C, Method.CONSUMER_REGISTER_C2M)

    async def heartbeat(
        self, *, done: EventProto | None = None, holds: tuple[str, ...] | None = None, wait_ms: int | None = None
    ) -> HeartResponseM2C:
        return await self.ask(
            HeartRequestC2M(
                client_id=self.client_id,
                group_name=self.group,
                subscribe_info=holds or (),
                report_subscribe_info=holds is not None,
                event=done,
                max_wait_ms=wait_ms,
            ),
            HeartResponseM2C,
            Method.CONSUMER_HEARTBEAT_C2M,
        )


P = TypeVar("P", bound=Peer)


class Town:
    """A running Master and the peers that were made for it."""

    def __init__(self, master: MasterService) -> None:
        self.master = master
        self.peers: list[Peer] = []

    async def peer(self, kind: type[P], *, capabilities: Capability = OURS, **attributes: Any) -> P:
        connection = await RpcConnection.connect(self.master.address, capabilities=capabilities)
        made = kind(connection)
        for name, value in attributes.items():
            setattr(made, name, value)
        self.peers.append(made)
        return made

    async def broker(self, broker_id: int = 1, **attributes: Any) -> FakeBroker:
        """A Broker that is online."""
        attributes.setdefault("address", Address("127.0.0.9", 8122 + broker_id))
        made = await self.peer(FakeBroker, broker_id=broker_id, **attributes)
        await made.register()
        await made.heartbeat()
        return made


@asynccontextmanager
async def town(**settings: Any) -> AsyncIterator[Town]:
    made = Town(MasterService(MasterSettings(listen=LISTEN, **settings)))
    await made.master.start()
    try:
        yield made
    finally:
        for peer in made.peers:
            await peer.close()
        await made.master.close()
