"""A Master and a Broker in one, in memory, on two loopback ports: for tests of code that uses the client.

Unscripted it behaves like a small cluster: topics have partitions, messages are stored, the first member of a group
gets every partition. Any response can be scripted: `respond`, `respond_fn`, `fail_next`, `silence`, and the whole
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
from typing import TYPE_CHECKING, Any

from pytubemq.errors import Code
from pytubemq.net.server.call import Call, Handler
from pytubemq.net.server.listening import bind
from pytubemq.net.server.server import RpcServer
from pytubemq.testing import mock_order
from pytubemq.testing.mock_handlers import MockHandlers
from pytubemq.testing.mock_state import BROKER_ID, MockCluster, MockMessage, Recorded
from pytubemq.wire.batch.payload import decode_payload
from pytubemq.wire.protocol.extensions import EARLIER_BATCH_REFUSED, OURS, Capability
from pytubemq.wire.rpc.methods import METHODS, Method, Service
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    import socket
    from types import TracebackType

    from pytubemq.model.ids import Address

Script = Callable[[Call, Any], Any]
"""(call, request) -> a message as the response; None for the usual response; `SILENCE` for no response."""

SILENCE = object()


class MockBroker(MockCluster):
    """A Master and a Broker in memory; see the module."""

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
        super().__init__(topics, capabilities=capabilities, auto_assign=auto_assign, broker_id=broker_id, listen=listen)
        self._scripts: defaultdict[int, deque[Script]] = defaultdict(deque)
        self._always: dict[int, Script] = {}
        self._master: RpcServer | None = None
        self._broker: RpcServer | None = None
        self._handlers = MockHandlers(self)
        self._kept_port: socket.socket | None = None
        """Keeps others from the Broker's port while the Broker alone is stopped."""

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
        """Start the Broker only, as `start` does."""
        self._release_port()
        self._broker = self._server(Service.BROKER_READ, Service.BROKER_WRITE)
        self.broker_address = await self._broker.start(self.broker_address)

    async def stop(self) -> None:
        """Stop like processes that end: connections break, registrations are forgotten, messages stay."""
        await self._stop_broker()
        self._release_port()
        master, self._master = self._master, None
        if master is not None:
            self.touch()
            await master.close(grace_s=0.0)
        self.forget_clients()

    async def stop_broker(self) -> None:
        """Stop the Broker only, as `stop` does; the Master goes on naming it.

        Its port refuses connections and is kept until the next start, or `stop`."""
        await self._stop_broker()
        if self._kept_port is None:
            self._kept_port = bind(self.broker_address, name="mock Broker")

    def _release_port(self) -> None:
        if self._kept_port is not None:
            self._kept_port.close()
            self._kept_port = None

    async def _stop_broker(self) -> None:
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
        """Forget all registrations, like a Master that restarted."""
        self.producers.clear()
        self.consumers.clear()
        self.queued_events.clear()
        self.touch()

    @property
    def masters(self) -> str:
        """The argument for `connect`."""
        return str(self.address)

    # --- scripting ------------------------------------------------------------------------------------------

    def respond(self, method: Method, message: Any, *, times: int = 1) -> None:
        """Respond to the next `times` requests of a method with `message`."""
        self._scripts[method].extend([lambda _call, _request: message] * times)

    def script(self, method: Method, *scripts: Script) -> None:
        """Let each of `scripts` respond to one of the next requests of a method, before `respond_fn`."""
        self._scripts[method].extend(scripts)

    def work(self, call: Call, request: Any) -> Any:
        """Do the usual work and return its response; for scripts that change only a part of it."""
        return self._handlers.work(call, request)

    def respond_fn(self, method: Method, script: Script | None) -> None:
        """Let `script` respond to every request of a method; None ends that."""
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
        """Respond to the next request of a method with an exception."""

        def crash(call: Call, _request: Any) -> Any:
            call.fail(exception_name=exception_name, text=text)
            return SILENCE

        self._scripts[method].append(crash)

    def silence(self, method: Method, *, times: int = 1) -> None:
        """Never respond to the next `times` requests of a method."""
        self._scripts[method].extend([lambda _call, _request: SILENCE] * times)

    def drop_on(self, method: Method, *, times: int = 1, after: bool = False) -> None:
        """Break the connection at the next requests of a method; `after` does the work before that."""

        def drop(call: Call, request: Any) -> Any:
            if after:
                self._handlers.work(call, request)
            call.connection.abort()
            return SILENCE

        self._scripts[method].extend([drop] * times)

    # --- looking --------------------------------------------------------------------------------------------

    def received(self, method: Method) -> list[Any]:
        """Return the requests of a method so far, decoded."""
        return [recorded.message for recorded in self.requests if recorded.method is method]

    async def until(self, condition: Callable[[], object], *, timeout_s: float = 10.0) -> None:
        """Wait until a condition is true that a request brings about."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def bodies(self, topic: str, partition_id: int | None = None) -> list[bytes]:
        """Return the bodies stored in a topic, partition by partition."""
        return [
            decode_payload(message.payload, message.flag)[0]
            for (name, number), partition in sorted(self.partitions.items())
            if name == topic and partition_id in (None, number)
            for message in partition.messages
        ]

    def confirmed(self, group: str, topic: str, partition_id: int = 0) -> int:
        """Return the number of messages of a partition that a group has confirmed."""
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

    # --- inside ---------------------------------------------------------------------------------------------

    async def _serve(self, call: Call) -> None:
        method = Method(call.request.method)
        request = decode(METHODS[method].request, call.request.body)
        self.requests.append(Recorded(method, request, call.peer))
        self.touch()
        if call.connection.closed:
            return  # a script for an earlier request broke it: no later request is served
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
        """Return the scripted response, else the usual one."""
        scripts = self._scripts[method]
        script = scripts.popleft() if scripts else self._always.get(method)
        answer = script(call, request) if script is not None else None
        if isinstance(answer, Awaitable):
            answer = await answer
        return await self._handlers.answer(call, request) if answer is None else answer
