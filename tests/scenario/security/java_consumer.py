"""The requests of a Java consumer to a Master, which signs only when it is asked to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pytubemq.wire.protocol.messages.master import (
    AuthenticateInfo,
    CloseRequestC2M,
    CloseResponseM2C,
    HeartRequestC2M,
    HeartResponseM2C,
    MasterCertificateInfo,
    RegisterRequestC2M,
    RegisterResponseM2C,
)
from pytubemq.wire.rpc.methods import Method, Service

if TYPE_CHECKING:
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.security.credentials import Credentials

UNSIGNED = MasterCertificateInfo(authorized_token="")
GROUP = "readers"


class JavaConsumer:
    """The requests of a Java consumer to the Master."""

    def __init__(self, connection: RpcConnection, client_id: str = "readers_1-Pull") -> None:
        self.connection = connection
        self.client_id = client_id

    async def register(self, certificate: MasterCertificateInfo | None = UNSIGNED, topic: str = "orders") -> Any:
        request = RegisterRequestC2M(
            client_id=self.client_id, group_name=GROUP, host_name="h", topic_list=(topic,), auth_info=certificate
        )
        return await self._send(request, RegisterResponseM2C, Method.CONSUMER_REGISTER_C2M)

    async def heartbeat(self, certificate: MasterCertificateInfo | None = UNSIGNED) -> Any:
        request = HeartRequestC2M(
            client_id=self.client_id, group_name=GROUP, report_subscribe_info=False, auth_info=certificate
        )
        return await self._send(request, HeartResponseM2C, Method.CONSUMER_HEARTBEAT_C2M)

    async def close(self, certificate: MasterCertificateInfo | None) -> Any:
        request = CloseRequestC2M(client_id=self.client_id, group_name=GROUP, auth_info=certificate)
        return await self._send(request, CloseResponseM2C, Method.CONSUMER_CLOSE_C2M)

    async def _send(self, request: object, response: type[Any], method: Method) -> Any:
        return await self.connection.request(request, response, method, Service.MASTER, timeout_s=10.0)


def signed(credentials: Credentials, nonce: int) -> MasterCertificateInfo:
    timestamp_ms = time.time_ns() // 1_000_000
    return MasterCertificateInfo(
        auth_info=AuthenticateInfo(
            user_name=credentials.user,
            timestamp=timestamp_ms,
            nonce=nonce,
            oth_params="",
            signature=credentials.sign(timestamp_ms=timestamp_ms, nonce=nonce),
        )
    )
