"""A Master and a Broker in one, in memory, on two loopback ports: for tests of code that uses the client.

By itself it does what a small cluster does: topics have partitions, messages are stored, the first member of a group
gets every partition. Then any answer can be scripted: `respond`, `respond_fn`, `fail_next`, `silence`, and the whole
can go away and come back with `stop`, `start` and `drop_connections`.

    async with MockBroker(topics={"demo": 2}) as mock:
        async with connect(mock.masters) as tube, tube.producer("demo") as producer:
            mock.fail_next(Method.SEND_PACKS_P2B, code=419)
            await producer.send(b"hello")
        assert mock.bodies("demo") == [b"hello"]
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytubemq.errors import Code
from pytubemq.model.ids import UNDEFINED, Address, BrokerInfo, Partition
from pytubemq.net.call import Call
from pytubemq.net.server import Handler, RpcServer
from pytubemq.testing import mock_order
from pytubemq.testing.mock_handlers import MockHandlers
from pytubemq.testing.mock_state import MockMessage, MockPartition
from pytubemq.wire.codec import decode, encode
from pytubemq.wire.extensions import EARLIER_BATCH_REFUSED, OURS, Capability
from pytubemq.wire.messages.master import EventProto
from pytubemq.wire.methods import METHODS, Method, Service
from pytubemq.wire.payload import decode_payload
from pytubemq.wire.strings import SubscribeInfo, format_subscribe_info

if TYPE_CHECKING:
    from types import TracebackType

Script = Callable[[Call, Any], Any]
"""(call, request) -> a message to answer with; None for the usual answer; `SILENCE` for none at all."""

SILENCE = object()
BROKER_ID = 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request that came in."""

    method: Method
    message: Any
    peer: str


class MockBroker:
    """See the module."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        capabilities: Capability = OURS,
        auto_assign: bool = True,
        broker_id: int = BROKER_ID,
        listen: Address | None = None,
    ) -> None:
        """`topics` maps names to numbers of partitions; `capabilities=Capability(0)` speaks as the original does."""
        self.broker_id = broker_id
        self.capabilities = capabilities
        self.auto_assign = auto_assign
        self.address = listen or Address("127.0.0.1", 0)
        """The Master's."""
        self.broker_address = Address(self.address.host, 0)
        self.topics: dict[str, int] = dict(topics or {})
        self.peers: list[MockBroker] = []
        """Other mocks whose Broker this one's Master names, too."""
        self.online = True
        """Whether this Broker's Master names it to producers; who asks where topics are deployed hears of it always."""
        self.max_message_bytes: int | None = None
        self.partitions: defaultdict[tuple[str, int], MockPartition] = defaultdict(MockPartition)
        self.requests: list[Recorded] = []
        self.producers: dict[str, int] = {}
        """Client id -> the change it was told of last."""
        self.consumers: dict[str, str] = {}
        """Client id -> group."""
        self.subscriptions: dict[str, tuple[str, ...]] = {}
        self.nodes: dict[str, int] = {}
        """Client id -> node, of consumers that balance themselves."""
        self.reported: dict[str, tuple[str, ...]] = {}
        """Client id -> what such a consumer said to hold."""
        self.last_beats: dict[str, Any] = {}
        """Client id -> the last heartbeat of such a consumer."""
        self.closed: set[str] = set()
        """Topics that cannot be consumed, as such consumers are told."""
        self.told_meta: tuple[str, ...] = ()
        self.meta_id = 0
        self.newest_id = UNDEFINED
        """The operators' command to go to the newest messages."""
        self.queued_events: defaultdict[str, deque[EventProto]] = defaultdict(deque)
        self.acknowledged: list[EventProto] = []
        self.check_sum = 1
        self.changed = asyncio.Event()
        self._scripts: defaultdict[int, deque[Script]] = defaultdict(deque)
        self._always: dict[int, Script] = {}
        self._master: RpcServer | None = None
        self._broker: RpcServer | None = None
        self._handlers = MockHandlers(self)
        self._events = 0

    # --- life -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> MockBroker:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; after a `stop` on the same ports, with messages and positions as they were."""
        self._master = self._server(Service.MASTER)
        self.address = await self._master.start(self.address)
        await self.start_broker()

    async def start_broker(self) -> None:
        """The Broker's half of `start`."""
        self._broker = self._server(Service.BROKER_READ, Service.BROKER_WRITE)
        self.broker_address = await self._broker.start(self.broker_address)

    async def stop(self) -> None:
        """Go away as processes that end: connections break, registrations are forgotten, messages stay."""
        await self.stop_broker()
        master, self._master = self._master, None
        if master is not None:
            self.touch()
            await master.close(grace_s=0.0)
        self.forget_clients()

    async def stop_broker(self) -> None:
        """The Broker's half of `stop`; the Master goes on naming it."""
        broker, self._broker = self._broker, None
        if broker is not None:
            self.touch()
            await broker.close(grace_s=0.0)
        for partition in self.partitions.values():
            partition.owners.clear()
            partition.fetched.clear()

    def drop_connections(self, *, master: bool = True) -> None:
        """Break every connection, or every one with the Broker; nothing is forgotten."""
        for server in (self._master if master else None, self._broker):
            for connection in list(server.connections) if server is not None else ():
                connection.abort()

    def _server(self, *services: Service) -> RpcServer:
        handlers: dict[int, Handler] = {int(method): self._serve for method in METHODS}
        return RpcServer(handlers, offered=frozenset(services), name="mock", capabilities=self.capabilities)

    def forget_clients(self) -> None:
        """Forget who is registered, as a Master that restarted has."""
        self.producers.clear()
        self.consumers.clear()
        self.queued_events.clear()
        self.touch()

    @property
    def masters(self) -> str:
        """What to give to `connect`."""
        return str(self.address)

    @property
    def info(self) -> BrokerInfo:
        """This Broker."""
        return BrokerInfo(self.broker_id, self.broker_address)

    # --- scripting ------------------------------------------------------------------------------------------

    def respond(self, method: Method, message: Any, *, times: int = 1) -> None:
        """Answer the next `times` requests of a method with `message`."""
        self._scripts[method].extend([lambda _call, _request: message] * times)

    def script(self, method: Method, *scripts: Script) -> None:
        """Ask each of `scripts` for the answer to one of the next requests of a method, before `respond_fn`."""
        self._scripts[method].extend(scripts)

    def work(self, call: Call, request: Any) -> Any:
        """Do what is asked and return the usual answer; for scripts that change only a part of it."""
        return self._handlers.work(call, request)

    def respond_fn(self, method: Method, script: Script | None) -> None:
        """Ask `script` for the answer to every request of a method; None ends that."""
        if script is None:
            self._always.pop(method, None)
        else:
            self._always[method] = script

    def fail_next(
        self, method: Method, *, code: int = Code.SERVICE_UNAVAILABLE, text: str = "scripted", times: int = 1
    ) -> None:
        """Refuse the next `times` requests of a method with a code."""
        self._scripts[method].extend([lambda _call, _request: self._handlers.refusal(method, code, text)] * times)

    def crash_next(
        self, method: Method, *, exception_name: str = "java.lang.Exception", text: str = "scripted"
    ) -> None:
        """Answer the next request of a method with an exception instead of an answer."""

        def crash(call: Call, _request: Any) -> Any:
            call.fail(exception_name=exception_name, text=text)
            return SILENCE

        self._scripts[method].append(crash)

    def silence(self, method: Method, *, times: int = 1) -> None:
        """Never answer the next `times` requests of a method."""
        self._scripts[method].extend([lambda _call, _request: SILENCE] * times)

    def drop_on(self, method: Method, *, times: int = 1, after: bool = False) -> None:
        """Break the connection at the next requests of a method; `after` does the work first, so the answer is lost."""

        def drop(call: Call, request: Any) -> Any:
            if after:
                self._handlers.work(call, request)
            call.connection.abort()
            return SILENCE

        self._scripts[method].extend([drop] * times)

    # --- looking --------------------------------------------------------------------------------------------

    def received(self, method: Method) -> list[Any]:
        """The requests of a method so far, decoded."""
        return [recorded.message for recorded in self.requests if recorded.method is method]

    async def until(self, condition: Callable[[], object], *, timeout_s: float = 10.0) -> None:
        """Wait until something that a request brings about is so."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def bodies(self, topic: str, partition_id: int | None = None) -> list[bytes]:
        """The bodies stored in a topic, partition by partition."""
        return [
            decode_payload(message.payload, message.flag)[0]
            for (name, number), partition in sorted(self.partitions.items())
            if name == topic and partition_id in (None, number)
            for message in partition.messages
        ]

    def confirmed(self, group: str, topic: str, partition_id: int = 0) -> int:
        """How many messages of a partition a group has confirmed."""
        return self.partitions[topic, partition_id].confirmed.get(group, 0)

    # --- doing ----------------------------------------------------------------------------------------------

    def store(self, topic: str, *bodies: bytes, partition_id: int = 0, msg_type: str | None = None) -> None:
        """Put messages into a partition."""
        self.partitions[topic, partition_id].messages.extend(MockMessage(body, msg_type=msg_type) for body in bodies)
        self.touch()

    def create_topic(self, topic: str, partitions: int) -> None:
        """Add a topic, or change its number of partitions."""
        self.topics[topic] = partitions
        self.check_sum += 1
        self.touch()

    def push_event(self, client_id: str, op_type: int, partitions: list[Partition]) -> int:
        """Queue an event for a consumer: 1 connect, 2 disconnect; returns its number."""
        self._events += 1
        group = self.consumers[client_id]
        infos = tuple(
            format_subscribe_info(SubscribeInfo(client_id, group, self.info, partition)) for partition in partitions
        )
        self.queued_events[client_id].append(
            EventProto(rebalance_id=self._events, op_type=op_type, status=0, subscribe_info=infos)
        )
        self.touch()
        return self._events

    def all_partitions(self, topic: str) -> list[Partition]:
        """The partitions of a topic."""
        return [Partition(self.broker_id, topic, number) for number in range(self.topics.get(topic, 0))]

    def touch(self) -> None:
        """Wake everything that waits for a change."""
        self.changed.set()

    # --- inside ---------------------------------------------------------------------------------------------

    async def _serve(self, call: Call) -> None:
        method = Method(call.request.method)
        request = decode(METHODS[method].request, call.request.body)
        self.requests.append(Recorded(method, request, call.peer))
        self.touch()
        if call.connection.closed:
            return  # broken by what was scripted for an earlier one: nothing that came after it is done
        if mock_order.behind(call, request):
            answer = self._handlers.refusal(method, Code.SERVER_RECEIVE_OVERFLOW, EARLIER_BATCH_REFUSED)
        else:
            answer = await self._answer(method, call, request)
        if answer is not SILENCE:
            mock_order.answered(call, request, answer)
        elif not call.answered:
            mock_order.dropped(call, request)
        if answer is not SILENCE:
            call.reply(encode(answer) if not isinstance(answer, list | bytes) else answer)
        self.touch()

    async def _answer(self, method: Method, call: Call, request: Any) -> Any:
        """As scripted, else as usual."""
        scripts = self._scripts[method]
        script = scripts.popleft() if scripts else self._always.get(method)
        answer = script(call, request) if script is not None else None
        if isinstance(answer, Awaitable):
            answer = await answer
        return await self._handlers.answer(call, request) if answer is None else answer
