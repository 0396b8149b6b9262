"""Registrations, confirms and flushes in all orders: the position of a group never moves back, and a refused confirm
leaves no trace.

Real handlers, append path and store over a disk in memory; each write of the journal waits until a rule lets it go on,
well or onto a full disk.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pytubemq.broker.consume.fetch import FetchHandlers
from pytubemq.broker.consume.registration import RegisterHandlers
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.errors import Code
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.batch import stored
from pytubemq.wire.protocol.extensions import OURS
from pytubemq.wire.protocol.messages.broker import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    RegisterRequestC2B,
    RegisterResponseB2C,
)
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.scenario.broker.support import connected, item, service
from tests.support.properties import examples, run_machine
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.soaking import Part

KEY = RegistrationKey("g", "demo", 0)
MEMBERS = ("g_127.0.0.1-1-1-1-Pull-1.0", "g_127.0.0.1-2-1-1-Pull-1.0")
MESSAGES = 6
STRANGER = 5
"""One caller in so many may be somebody else than who is registered."""
members = st.sampled_from(MEMBERS)
callers = st.tuples(st.integers(1, STRANGER), members)
seldom = st.integers(1, 4).map(lambda drawn: drawn == 4)


class Connection:
    """Where a call comes from."""

    closed = False
    capabilities = OURS
    block_bytes = None
    backlogged = False
    peer = "127.0.0.1:1"

    def __init__(self, server: Any) -> None:
        self.context: dict[Any, Any] = {}
        self.server = server


class Request:
    def __init__(self, body: bytes) -> None:
        self.body = body


class RecordedCall:
    """A call that keeps its response."""

    peer = "127.0.0.1:1"
    expired = False
    received_s = 0.0
    deadline_s = float("inf")

    def __init__(self, message: object, connection: Connection) -> None:
        self.request = Request(encode(message))
        self.connection = connection
        self.body: bytes | None = None

    def reply(self, body: Any) -> None:
        """Keep the response."""
        self.body = body if isinstance(body, bytes) else b"".join(body)


class GroupPositions(RuleBasedStateMachine):
    """Two members of a group and one partition."""

    outcomes: ClassVar[Counter[tuple[int | None, bool]]] = Counter()
    """Confirms by response code, and by whether they were to move the group."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.disk = FaultyDisk()
        self.broker = service(self.disk)
        self.loop.run_until_complete(self._start())
        self.gate = threading.Semaphore(0)
        self.full = False
        self.durable = -1
        self.confirmed = 0
        """The largest offset whose confirm was answered with success."""
        self.connection = Connection(self.broker._server)
        self.confirms: list[tuple[RecordedCall, int, int]] = []
        """With the offset that was asked for, and the largest one that the confirm may reach."""
        self.registrations: list[tuple[RecordedCall, str, int]] = []

    async def _start(self) -> None:
        await self.broker.start()
        assert self.broker._state is not None
        self.state = self.broker._state
        async with connected(self.broker) as peer:
            await peer.send_each([item(b"%d" % n) for n in range(MESSAGES)])
        self.register_handlers, self.fetch_handlers = RegisterHandlers(self.state), FetchHandlers(self.state)
        assert self.broker._store is not None
        self.store = self.broker._store
        write = self.store.write

        def gated(prepared: Any) -> None:
            self.gate.acquire()
            self.disk.capacity_bytes = 0 if self.full else None
            try:
                write(prepared)
            finally:
                self.disk.capacity_bytes = None

        self.store.write = gated  # type: ignore[method-assign]

    def teardown(self) -> None:
        self._drain()
        try:
            for call, up_to, _ in self.confirms:
                assert call.body is not None, "a confirm was never answered"
                self.outcomes[decode(CommitOffsetResponseB2C, call.body).err_code, up_to > 0] += 1
        finally:
            self.gate.release(1000)
            self.loop.run_until_complete(self.broker.close())
            self.loop.close()

    # --- steps ----------------------------------------------------------------------------------------------

    @initialize(member=members)
    def somebody_registers(self, member: str) -> None:
        self.register((1, member), unregister=False)
        self._flush(full=False)

    @rule(caller=callers, unregister=seldom)
    def register(self, caller: tuple[int, str], unregister: bool) -> None:
        member = self._who(caller)
        request = RegisterRequestC2B(
            op_type=32 if unregister else 31,
            client_id=member,
            group_name=KEY.group,
            topic_name=KEY.topic,
            partition_id=KEY.partition_id,
            read_status=1 if unregister else 0,
        )
        call = RecordedCall(request, self.connection)
        self._serve(self.register_handlers.register, call)
        if not unregister:
            self.registrations.append((call, member, self.confirmed))

    @rule(really=seldom)
    def lease_runs_out(self, really: bool) -> None:
        hold = self.state.registry._registrations.get(KEY)
        if really and hold is not None:
            self.state.registry.drop(hold)

    @rule(caller=callers, most=st.integers(1, MESSAGES))
    def fetch(self, caller: tuple[int, str], most: int) -> None:
        member = self._who(caller)
        request = GetMessageRequestC2B(
            client_id=member,
            partition_id=KEY.partition_id,
            group_name=KEY.group,
            topic_name=KEY.topic,
            last_pack_consumed=False,
            manual_commit_offset=False,
            max_messages=most,
        )
        call = RecordedCall(request, self.connection)
        self._serve(self.fetch_handlers.get, call, answered=True)
        assert call.body is not None
        head, _ = stored.decode_get_message(call.body)
        if head.err_code == Code.SUCCESS:
            assert head.curr_offset is not None
            assert head.curr_offset >= self.confirmed, "handed out again what was confirmed"

    @rule(caller=callers, messages=st.integers(0, MESSAGES))
    def confirm(self, caller: tuple[int, str], messages: int) -> None:
        """Confirm the first messages of the partition, fetched in this registration or before it."""
        member, up_to = self._who(caller), messages * OFFSET_UNIT
        request = CommitOffsetRequestC2B(
            client_id=member,
            topic_name=KEY.topic,
            partition_id=KEY.partition_id,
            group_name=KEY.group,
            last_pack_consumed=True,
            up_to=up_to,
        )
        call = RecordedCall(request, self.connection)
        # One below another that is in flight confirms that one as well.
        under_way = [reach for earlier, _, reach in self.confirms if earlier.body is None]
        most = max([up_to, self.durable, *under_way])
        self._serve(self.fetch_handlers.commit, call)
        self.confirms.append((call, up_to, most))

    @rule(full=st.booleans())
    def flush(self, full: bool) -> None:
        self._flush(full=full)

    @rule(member=members, messages=st.integers(1, MESSAGES), less=st.integers(1, MESSAGES))
    def confirm_less_after_a_refusal(self, member: str, messages: int, less: int) -> None:
        self.confirm((1, member), messages)
        self._flush(full=True)
        self.confirm((1, member), max(0, messages - less))
        self._flush(full=False)

    @invariant()
    def the_position_never_moves_back(self) -> None:
        for call, up_to, most in self.confirms:
            if call.body is not None:
                response = decode(CommitOffsetResponseB2C, call.body)
                if response.err_code == Code.SUCCESS:
                    self.confirmed = max(self.confirmed, up_to)
                    assert up_to <= (response.curr_offset or 0) <= most, "a refused confirm counts with a later one"
        durable = self.store.confirmed(*KEY)
        now = -1 if durable is None else durable
        assert now >= self.durable, "the position moved back"
        assert now in self._allowed(), "a refused confirm has left a trace"
        self.durable = now
        assert self.confirmed == 0 or now >= self.confirmed, "an answered confirm was undone"
        for call, _, confirmed in self.registrations:
            if call.body is not None:
                answer = decode(RegisterResponseB2C, call.body)
                if answer.err_code == Code.SUCCESS:
                    assert answer.curr_offset is not None
                    assert answer.curr_offset >= confirmed, "begins before what was confirmed"

    # --- inside ---------------------------------------------------------------------------------------------

    def _who(self, caller: tuple[int, str]) -> str:
        """Return who calls: mostly the registered member, as everything is refused to others."""
        stranger, member = caller
        hold = self.state.registry._registrations.get(KEY)
        return member if hold is None or stranger == STRANGER else hold.consumer_id

    def _allowed(self) -> set[int]:
        """Where the group may be: at the start, or where a confirm with success has put it."""
        allowed = {-1, 0}
        for call, _, _ in self.confirms:
            if call.body is not None:
                answer = decode(CommitOffsetResponseB2C, call.body)
                if answer.err_code == Code.SUCCESS:
                    allowed.add(answer.curr_offset or 0)
        return allowed

    def _serve(self, handler: Callable[[Any], object], call: RecordedCall, *, answered: bool = False) -> None:
        async def serve() -> None:
            handler(call)
            if answered:
                await until(lambda: call.body is not None)

        self.loop.run_until_complete(serve())
        self._settle()

    def _settle(self) -> None:
        async def turns() -> None:
            for _ in range(5):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def _flush(self, *, full: bool) -> None:
        path = self.state.path

        async def one_write() -> None:
            stats = path.stats
            before = stats.writes + stats.failed_writes
            self.full = full
            self.gate.release()
            await until(lambda: stats.writes + stats.failed_writes > before)

        if path._under_way:
            self.loop.run_until_complete(one_write())
            self._settle()

    def _drain(self) -> None:
        while self.state.path._under_way:
            self._flush(full=False)
        self.the_position_never_moves_back()


def test_a_position_never_moves_back(part: Part) -> None:
    GroupPositions.outcomes.clear()
    tried = examples(60)
    run_machine(GroupPositions, part, max_examples=tried, step_count=25)
    # A machine whose confirms are all refused would find nothing wrong.
    assert GroupPositions.outcomes[Code.SUCCESS, True] > tried // part.count // 4
