"""A hostile Master for Brokers, and a hostile Master with a Broker for clients, on loopback.

The invariant: except for the injected faults the servers work, so that their peers get as far as they can.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from pytubemq.model.ids import Address
from pytubemq.net.server.server import RpcServer
from pytubemq.testing.hostile.fault_injector import FaultInjector
from pytubemq.testing.hostile.requests import sound
from pytubemq.testing.hostile.values import NAMES, Scene, Values
from pytubemq.testing.mock_broker import SILENCE, MockBroker
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
from pytubemq.wire.rpc.methods import METHODS, Method, Service
from pytubemq.wire.serialization.message_bytes import decode, encode
from pytubemq.wire.text.configuration import (
    BrokerDefaultConf,
    BrokerTopicConf,
    format_broker_default_conf,
    format_broker_topic_conf,
)

if TYPE_CHECKING:
    from types import TracebackType

    from pytubemq.net.server.call import Call

LOOPBACK = Address("127.0.0.1", 0)
REMOVED_HEARTBEATS = 25


class HostileMaster:
    """A Master that tries to harm its Broker; it answers every heartbeat at once, with a new configuration."""

    def __init__(self, seed: int, scene: Scene, *, capabilities: Capability = OURS, sound_share: float = 0.4) -> None:
        self.scene = scene
        self.faults = FaultInjector(seed, scene, sound_share=sound_share)
        self.address = LOOPBACK
        self._capabilities = capabilities
        self._conf_id = 0
        self._server: RpcServer | None = None

    async def __aenter__(self) -> HostileMaster:
        methods = (Method.BROKER_REGISTER_B2M, Method.BROKER_HEARTBEAT_B2M, Method.BROKER_CLOSE_B2M)
        self._server = RpcServer(
            {int(method): self._serve for method in methods},
            offered=frozenset({Service.MASTER.value}),
            name="hostile Master",
            capabilities=self._capabilities,
        )
        self.address = await self._server.start(self.address)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.close(grace_s=0.0)

    def _serve(self, call: Call) -> None:
        request = decode(METHODS[call.request.method].request, call.request.body)
        answer = self._sound(request)
        if not self.faults.answer(call, answer):
            call.reply(encode(answer))

    def _sound(self, request: Any) -> Any:
        self._conf_id += 1
        common: dict[str, Any] = {"success": True, "err_code": 200, "err_msg": "OK!"}
        match request:
            case RegisterRequestB2M():
                return RegisterResponseM2B(**common, **self._configuration())
            case HeartRequestB2M():
                return HeartResponseM2B(
                    **common,
                    **self._configuration(),
                    need_report_data=False,
                    take_remove_topic_info=True,
                    remove_topic_conf_info=self._removed(),
                )
            case CloseRequestB2M():
                return CloseResponseM2B(**common)
        raise NotImplementedError(type(request).__name__)

    def _removed(self) -> tuple[str, ...]:
        """Return topics to remove, most of which never existed; unchanged for some heartbeats, to leave time for it."""
        random = Random(f"{self.faults.seed}:removed:{self._conf_id // REMOVED_HEARTBEATS}")
        names = (*random.sample(NAMES, 3), *self.scene.more_topics)
        return tuple(_topic(name, status=2) for name in names)

    def _configuration(self) -> dict[str, Any]:
        """Return the configuration for responses to registrations and heartbeats, never the same twice."""
        return {
            "stop_read": False,
            "stop_write": False,
            "take_conf_info": True,
            "cur_broker_conf_id": self._conf_id,
            "conf_check_sum_id": self._conf_id,
            "broker_default_conf_info": format_broker_default_conf(BrokerDefaultConf()),
            "broker_topic_set_conf_info": (_topic(self.scene.topic, self.scene.partitions),),
            "cls_config": ClusterConfig(config_id=self._conf_id, max_msg_size=1 << 20),
            "topic_durability": (f"{self.scene.topic}:disk",),
            "topic_retention": (f"{self.scene.topic}:delete,72h",),
            "flow_check_id": self._conf_id,
            "flow_control_info": "[]",
        }


def _topic(name: str, partitions: int = 1, *, status: int = 0) -> str:
    return format_broker_topic_conf(BrokerTopicConf(topic=name, partitions=partitions, status=status))


class HostileCluster:
    """A Master and a Broker that try to harm their clients; `masters` is the argument for `connect`."""

    def __init__(self, seed: int, scene: Scene, *, capabilities: Capability = OURS, sound_share: float = 0.6) -> None:
        self.mock = MockBroker(
            topics={scene.topic: scene.partitions}, capabilities=capabilities, broker_id=scene.broker_id
        )
        self.faults = FaultInjector(seed, scene, sound_share=sound_share)
        for number in range(scene.partitions):
            self.mock.store(scene.topic, *(b"%d" % count for count in range(200)), partition_id=number)
        for method in METHODS.values():
            if method.method not in (Method.BROKER_REGISTER_B2M, Method.BROKER_HEARTBEAT_B2M, Method.BROKER_CLOSE_B2M):
                self.mock.respond_fn(method.method, self._script)

    async def __aenter__(self) -> HostileCluster:
        await self.mock.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.mock.stop()

    @property
    def masters(self) -> str:
        """The Master's `host:port`."""
        return self.mock.masters

    def _script(self, call: Call, request: Any) -> Any:
        self.mock.requests.clear()
        self.mock.acknowledged.clear()
        try:
            answer = self.mock.work(call, request)
        except (
            ValueError,
            KeyError,
            NotImplementedError,
        ):  # a corrupted answer made the client ask for what is not there
            values = Values(Random(self.faults.cases), self.faults.scene)
            answer = sound(METHODS[call.request.method].response, values)
        return SILENCE if self.faults.answer(call, answer) else answer
