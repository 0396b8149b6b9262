"""A Master that says what a test has it say."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytubemq.errors import Code
from pytubemq.net.server.server import RpcServer
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.master import (
    CloseRequestB2M,
    CloseResponseM2B,
    ClusterConfig,
    HeartRequestB2M,
    HeartResponseM2B,
    RegisterRequestB2M,
    RegisterResponseM2B,
)
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.scenario.broker.support import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.net.server.call import Call

DEFAULT = "3:true:true:1000:10000: :delete,168h:1:0:3:10:20000"


def topic(name: str, partitions: int = 1, status: int = 0) -> str:
    return f"{name}:{partitions}: : : : : : : :{status}: : : : : "


class ScriptedMaster:
    """Answers as a Master would: one configuration, told when it is not the one reported."""

    def __init__(self, *topics: str, capabilities: Capability = OURS) -> None:
        self.topics: tuple[str, ...] = topics
        self.conf_id = 1
        self.known = False
        self.refuse: int | None = None
        self.stop_read = self.stop_write = False
        self.registrations: list[RegisterRequestB2M] = []
        self.heartbeats: list[HeartRequestB2M] = []
        self.farewells: list[CloseRequestB2M] = []
        self.held: list[Call] = []
        self.says: dict[str, Any] = {}
        """Further fields of every answer to a heartbeat; `says_first` of every answer to a registration."""
        self.says_first: dict[str, Any] = {}
        self.capabilities = capabilities
        self.address = LOOPBACK
        self._server: RpcServer | None = None

    async def start(self) -> None:
        self._server = RpcServer(
            {
                Method.BROKER_REGISTER_B2M: self._register,
                Method.BROKER_HEARTBEAT_B2M: self._heartbeat,
                Method.BROKER_CLOSE_B2M: self._farewell,
            },
            offered=frozenset({1}),
            name="Master",
            capabilities=self.capabilities,
        )
        self.address = await self._server.start(self.address)

    async def stop(self) -> None:
        assert self._server is not None
        self.held.clear()
        self.known = False
        await self._server.close()

    def push(self, *topics: str) -> None:
        """Change the configuration and tell whoever waits for news."""
        self.topics = topics
        self.conf_id += 1
        self.release()

    def release(self) -> None:
        held, self.held = self.held, []
        for call in held:
            self._answer(call)

    def _register(self, call: Call) -> None:
        self.registrations.append(decode(RegisterRequestB2M, call.request.body))
        if self.refuse is not None:
            body = encode(
                RegisterResponseM2B(
                    success=False,
                    err_code=self.refuse,
                    err_msg="no such Broker is configured",
                    stop_read=False,
                    stop_write=False,
                    take_conf_info=False,
                )
            )
            call.reply(body)
            return
        self.known = True
        call.reply(
            encode(
                RegisterResponseM2B(
                    success=True,
                    err_code=200,
                    err_msg="OK!",
                    stop_read=self.stop_read,
                    stop_write=self.stop_write,
                    take_conf_info=True,
                    cur_broker_conf_id=self.conf_id,
                    conf_check_sum_id=self.conf_id * 10,
                    broker_default_conf_info=DEFAULT,
                    broker_topic_set_conf_info=self.topics,
                    cls_config=ClusterConfig(config_id=5, max_msg_size=2 << 20),
                    **self.says_first,
                )
            )
        )

    def _heartbeat(self, call: Call) -> None:
        request = decode(HeartRequestB2M, call.request.body)
        self.heartbeats.append(request)
        if self.known and request.max_wait_ms and request.cur_broker_conf_id == self.conf_id:
            self.held.append(call)
            return
        self._answer(call)

    def _answer(self, call: Call) -> None:
        request = decode(HeartRequestB2M, call.request.body)
        news = request.cur_broker_conf_id != self.conf_id
        fields: dict[str, Any] = {
            "success": True,
            "err_code": 200,
            "err_msg": "OK!",
            "take_remove_topic_info": False,
            **self.says,
        }
        if not self.known:
            fields |= {"success": False, "err_code": Code.HB_NO_NODE, "err_msg": "register first"}
        call.reply(
            encode(
                HeartResponseM2B(
                    **fields,
                    stop_read=self.stop_read,
                    stop_write=self.stop_write,
                    cur_broker_conf_id=self.conf_id,
                    conf_check_sum_id=self.conf_id * 10,
                    need_report_data=False,
                    take_conf_info=news,
                    broker_default_conf_info=DEFAULT if news else None,
                    broker_topic_set_conf_info=self.topics if news else (),
                )
            )
        )

    def _farewell(self, call: Call) -> None:
        self.farewells.append(decode(CloseRequestB2M, call.request.body))
        call.reply(encode(CloseResponseM2B(success=True, err_code=200, err_msg="OK!")))


@contextlib.asynccontextmanager
async def master(*topics: str, **options: Any) -> AsyncIterator[ScriptedMaster]:
    scripted = ScriptedMaster(*topics, **options)
    await scripted.start()
    try:
        yield scripted
    finally:
        await scripted.stop()
