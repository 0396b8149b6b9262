"""Registrations, confirms, resets and flushes in all orders: only a reset moves the position of a group back, and a
refused confirm or reset leaves no trace.

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
from pytubemq.errors import Code, RefusedError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.batch import stored
from pytubemq.wire.protocol.extensions import OURS, Capability
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
    from collections.abc import Callable, Iterable

    from tests.support.soaking import Part

KEY = RegistrationKey("g", "demo", 0)
OTHER = RegistrationKey("other", "demo", 0)
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
    capabilities: Capability = OURS
    block_bytes = None
    backlogged = False
    peer = "127.0.0.1:1"

    def __init__(self, server: Any) -> None:
        self.context: dict[Any, Any] = {}
        self.server = server


class Change:
    """A confirm or a reset, in the order in which they were asked for."""

    def __init__(self, up_to: int, most: int, call: RecordedCall | None = None) -> None:
        self.up_to = up_to
        """The offset that was asked for."""
        self.most = most
        """The largest offset that a confirm may reach."""
        self.call = call
        """None: a reset."""
        self.answered = False
        self.seen = False
        """True once the machine has looked at the answer."""
        self.position: int | None = None
        """Where the group is by the answer; None if it was refused."""
        self.behind_reset = False
        """True for a confirm that was asked for while a reset was in flight.

        Its reader may be at the new place, and its confirm counts there, even if the reset is refused.
        """

    def look(self) -> None:
        """Read a confirm's response, if it is there."""
        if self.call is not None and self.call.body is not None and not self.answered:
            self.answered = True
            response = decode(CommitOffsetResponseB2C, self.call.body)
            if response.err_code == Code.SUCCESS:
                self.position = response.curr_offset


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
    resets: ClassVar[Counter[bool]] = Counter()
    """Resets by whether they were made."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.disk = FaultyDisk()
        self.broker = service(self.disk)
        self.loop.run_until_complete(self._start())
        self.gate = threading.Semaphore(0)
        self.full = False
        self.durable = -1
        self.connection = Connection(self.broker._server)
        self.changes: list[Change] = []
        self.reset_tasks: list[asyncio.Task[None]] = []
        self.blurred = False
        """True from a reset that was refused with changes behind it to the next one that is made, with none behind it.

        Where the group is meanwhile depends on who read on from the place of the reset.
        """
        self.last_move: Change | None = None
        """The last reset that was answered with success, or the last confirm from its place."""
        self.registrations: list[tuple[RecordedCall, int]] = []
        """Those that are not answered yet, each with the least offset that it may begin at."""

    async def _start(self) -> None:
        await self.broker.start()
        assert self.broker._state is not None
        self.state = self.broker._state
        async with connected(self.broker) as peer:
            await peer.send_each([item(b"%d" % n) for n in range(MESSAGES)])
        self.register_handlers, self.fetch_handlers = RegisterHandlers(self.state), FetchHandlers(self.state)
        self.state.resets.add = _forget_record  # type: ignore[method-assign]
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
            assert not self.registrations, "a registration was never answered"
            for change in self.changes:
                assert change.answered, "a confirm or a reset was never answered"
                if change.call is not None and change.call.body is not None:
                    code = decode(CommitOffsetResponseB2C, change.call.body).err_code
                    self.outcomes[code, change.up_to > 0] += 1
                else:
                    self.resets[change.position is not None] += 1
        finally:
            self.gate.release(1000)
            self.loop.run_until_complete(self.broker.close())
            self.loop.close()

    # --- steps ----------------------------------------------------------------------------------------------

    @initialize(member=members, notified=st.booleans(), full=seldom, messages=st.integers(0, MESSAGES))
    def somebody_registers(self, member: str, notified: bool, full: bool, messages: int) -> None:
        """Register, maybe onto a full disk; then confirm behind another group's write, which finds room again."""
        if not notified:
            self.connection.capabilities = OURS & ~Capability.RESET_NOTICES
        self.register((1, member), unregister=False)
        self._flush(full=full)
        self.the_position_follows_the_last_change()
        if full and messages:
            self.state.positions.save(OTHER, OFFSET_UNIT)
            self._settle()
            self.confirm((1, member), messages)
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
            self.registrations.append((call, self._floor()))
            self.the_position_follows_the_last_change()

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
            assert head.curr_offset >= self._floor(), "handed out again what was confirmed"
            assert head.curr_offset <= self._ceiling(), "passed over what was not confirmed"

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
        under_way = [earlier.most for earlier in self.changes if not earlier.answered]
        most = max([up_to, self.durable, *under_way])
        change = Change(up_to, most, call)
        change.behind_reset = any(other.call is None and not other.answered for other in self.changes)
        self.changes.append(change)
        self._serve(self.fetch_handlers.commit, call)

    @rule(messages=st.integers(0, MESSAGES), really=seldom)
    def reset(self, messages: int, really: bool) -> None:
        if really:
            self._reset(messages)

    @rule(
        messages=st.integers(0, MESSAGES),
        member=members,
        by_reset=seldom,
        unregister=st.booleans(),
        full=st.booleans(),
    )
    def register_behind_a_change(
        self, messages: int, member: str, by_reset: bool, unregister: bool, full: bool
    ) -> None:
        """Begin or leave while a confirm or a reset is in flight, which is made or refused then."""
        if by_reset:
            self._reset(messages)
        else:
            self.confirm((1, member), messages)
        self.register((1, member), unregister)
        self._flush(full=full)
        self._flush(full=False)

    @rule(
        messages=st.integers(0, MESSAGES),
        caller=callers,
        more=st.integers(1, MESSAGES),
        full=st.booleans(),
        back=seldom,
        really=seldom,
    )
    def reset_a_reader(
        self, messages: int, caller: tuple[int, str], more: int, full: bool, back: bool, really: bool
    ) -> None:
        """Reset a group that reads, while its confirm may be in flight; then it reads on."""
        if not really:
            return
        self._drain()
        self.fetch(caller, MESSAGES)
        self._reset(messages)
        if back:
            self._reset(max(self.durable, 0) // OFFSET_UNIT)
        self.confirm(caller, min(MESSAGES, messages + more))
        self.fetch(caller, more)
        self._flush(full=full)
        self.fetch(caller, more)

    @rule(messages=st.integers(0, MESSAGES - 1), member=members, more=st.integers(1, MESSAGES), really=seldom)
    def confirm_what_is_from_before_a_reset(self, messages: int, member: str, more: int, really: bool) -> None:
        """Register again after a reset: what was handed out before it does not count."""
        if not really:
            return
        self._drain()
        self.fetch((1, member), MESSAGES)
        held = self.state.registry._registrations.get(KEY)
        self._reset(messages)
        self._drain()
        if held is None or held.has_reset_notices or self.changes[-1].position is None:
            return
        self.register((1, member), unregister=False)
        self._drain()
        self.confirm((1, member), min(MESSAGES, messages + more))
        self._drain()
        assert self.changes[-1].position == messages * OFFSET_UNIT, "a confirm from before a reset counts"

    def _reset(self, messages: int) -> None:
        change = Change(messages * OFFSET_UNIT, messages * OFFSET_UNIT)

        async def reset() -> None:
            try:
                await self.broker.offsets.set_one(KEY, change.up_to)
                change.position = change.up_to
            except RefusedError:
                pass
            change.answered = True

        self.changes.append(change)
        self.reset_tasks.append(self.loop.create_task(reset()))
        self._settle()

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
    def the_position_follows_the_last_change(self) -> None:
        for change in self.changes:
            before = change.answered
            change.look()
            if change.answered and not before and change.position is not None and not self._reset_since(change):
                least, most = change.up_to, change.most
                assert least <= change.position <= most, "a refused confirm counts with a later one"
        durable = self.store.confirmed(*KEY)
        now = -1 if durable is None else durable
        self._look_for_blur()
        made = [change for change in self.changes if change.position is not None]
        moves = [change for change in made if change.call is None or change.behind_reset]
        if moves and moves[-1] is not self.last_move:
            self.last_move = moves[-1]
        elif not self.blurred:
            assert now >= self.durable, "the position moved back"
        self.durable = now
        if made and not self.blurred and all(change.answered for change in self.changes):
            assert now == made[-1].position, "the position is not where the last change has put it"
        assert now in {-1, 0, *(change.position for change in made)}, "a refused change has left a trace"
        self._check_registrations(durable)

    def _look_for_blur(self) -> None:
        """Find resets that were refused with changes behind them, which may count from the place that it had not."""
        for at, change in enumerate(self.changes):
            if change.answered and not change.seen:
                change.seen = True
                if change.call is None and change.position is None and at + 1 < len(self.changes):
                    self.blurred = True
                elif change.call is None and change.position is not None and change is self.changes[-1]:
                    self.blurred = False

    def _check_registrations(self, durable: int | None) -> None:
        """Registrations begin where the group is, and only once that is durable or cannot be."""
        for call, least in list(self.registrations):
            if call.body is not None:
                self.registrations.remove((call, least))
                answer = decode(RegisterResponseB2C, call.body)
                if answer.err_code == Code.SUCCESS:
                    assert answer.curr_offset is not None
                    assert answer.curr_offset >= min(least, self._floor()), "begins before what was confirmed"
                    assert durable is not None or self.state.positions.unwritten, "answered before it is durable"

    # --- inside ---------------------------------------------------------------------------------------------

    def _who(self, caller: tuple[int, str]) -> str:
        """Return who calls: mostly the registered member, as everything is refused to others."""
        stranger, member = caller
        hold = self.state.registry._registrations.get(KEY)
        return member if hold is None or stranger == STRANGER else hold.consumer_id

    def _reset_since(self, change: Change) -> bool:
        """True if a reset was asked for before this confirm's answer: what it confirms may not count any more."""
        return change.call is None or any(other.call is None for other in self.changes)

    def _floor(self) -> int:
        """Return the least offset that may be handed out now."""
        for change in self.changes:
            change.look()
        self._look_for_blur()
        if self.blurred:
            return 0
        made = [change.position for change in self.changes if change.position is not None]
        under_way = [
            change.up_to
            for change in self.changes
            if not change.answered and (change.call is None or change.behind_reset)
        ]
        return min([made[-1] if made else 0, *under_way])

    def _ceiling(self) -> int:
        """Return the largest offset at which a fetch may begin now."""
        if self.blurred:
            return MESSAGES * OFFSET_UNIT
        made = [change.position for change in self.changes if change.position is not None]
        return max([made[-1] if made else 0, *(change.most for change in self.changes if not change.answered)])

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
        self.the_position_follows_the_last_change()


async def _forget_record(records: Iterable[object]) -> None:
    """In place of the history of resets, which is a file of its own."""
    list(records)


def test_a_position_never_moves_back(part: Part) -> None:
    GroupPositions.outcomes.clear()
    GroupPositions.resets.clear()
    tried = examples(60)
    run_machine(GroupPositions, part, max_examples=tried, step_count=25)
    # A machine whose confirms are all refused would find nothing wrong.
    assert GroupPositions.outcomes[Code.SUCCESS, True] > tried // part.count // 4
    assert GroupPositions.resets[True] > tried // part.count // 4
    assert GroupPositions.resets[False] > tried // part.count // 10
