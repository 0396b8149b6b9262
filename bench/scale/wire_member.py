"""Members of groups that speak to a real Master, and carry out every event at once without reading anything."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from pytubemq.errors import Code, TubeError
from pytubemq.net.client.connection import RpcConnection
from pytubemq.wire.protocol.messages.master import (
    CloseRequestC2M,
    CloseResponseM2C,
    EventProto,
    HeartRequestC2M,
    HeartResponseM2C,
    RegisterRequestC2M,
    RegisterResponseM2C,
)
from pytubemq.wire.rpc.methods import Method, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytubemq.model.ids import Address

WAIT_MS = 10_000
CALL_S = 20.0
DONE = 2
"""The status of an event that was carried out."""
CONNECTS = (1, 10)
"""The events that give a member partitions."""


class Member:
    """One consumer: registers, sends heartbeats, and comes back when its connection breaks."""

    def __init__(self, crowd: Crowd, group: str, name: str, topic: str) -> None:
        self._crowd = crowd
        self.group, self.name, self._topic = group, name, topic
        self.holds: frozenset[str] = frozenset()
        self.done: EventProto | None = None
        """The event that it has carried out and not acknowledged yet."""
        self.registered = False
        """True once it has registered since the counts were reset."""
        self._connection: RpcConnection | None = None

    async def run(self) -> None:
        """Take part until cancelled."""
        while True:
            try:
                await self._take_part()
            except TubeError:
                # Only a Master that is away may break a call.
                self._crowd.failures += self._crowd.master_is_up.is_set()
            await self.close()
            await self._crowd.master_is_up.wait()
            await asyncio.sleep(random.uniform(0.05, 0.5))

    async def leave(self) -> None:
        """Unregister; `run` has been cancelled."""
        assert self._connection is not None
        request = CloseRequestC2M(client_id=self.name, group_name=self.group)
        answer = await self._connection.request(
            request, CloseResponseM2C, Method.CONSUMER_CLOSE_C2M, Service.MASTER, timeout_s=CALL_S
        )
        self._crowd.failures += not answer.success
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _take_part(self) -> None:
        self._connection = connection = await RpcConnection.connect(self._crowd.master, timeout_s=CALL_S)
        await self._register(connection)
        report = True
        while True:
            request = HeartRequestC2M(
                client_id=self.name,
                group_name=self.group,
                subscribe_info=tuple(sorted(self.holds)) if report else (),
                report_subscribe_info=report,
                event=self.done,
                max_wait_ms=WAIT_MS,
            )
            answer = await connection.request(
                request, HeartResponseM2C, Method.CONSUMER_HEARTBEAT_C2M, Service.MASTER, timeout_s=CALL_S
            )
            self._crowd.heartbeats += 1
            if answer.err_code == Code.HB_NO_NODE:
                self._crowd.failures += 1
                await self._register(connection)
                continue
            self._crowd.failures += not answer.success
            self.done = None
            report = answer.event is not None
            if answer.event is not None:
                self._carry_out(answer.event)
            self._crowd.changed.set()

    async def _register(self, connection: RpcConnection) -> None:
        request = RegisterRequestC2M(
            client_id=self.name,
            group_name=self.group,
            host_name="127.0.0.1",
            topic_list=(self._topic,),
            subscribe_info=tuple(sorted(self.holds)),
        )
        answer = await connection.request(
            request, RegisterResponseM2C, Method.CONSUMER_REGISTER_C2M, Service.MASTER, timeout_s=CALL_S
        )
        self._crowd.failures += not answer.success
        self.registered = True
        self._crowd.changed.set()

    def _carry_out(self, event: EventProto) -> None:
        self._crowd.events += 1
        if event.op_type in CONNECTS:
            self._crowd.moves += len(event.subscribe_info)
            self.holds |= frozenset(event.subscribe_info)
        else:
            self.holds -= frozenset(event.subscribe_info)
        self.done = EventProto(rebalance_id=event.rebalance_id, op_type=event.op_type, status=DONE)


class Crowd:
    """Members of many groups; each group consumes one topic, whose partitions it has to share out."""

    def __init__(self, master: Address, topics: Sequence[str], *, groups: int, partitions: int) -> None:
        self.master = master
        self._topics, self._groups, self._partitions = topics, groups, partitions
        self.members: dict[str, Member] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.master_is_up = asyncio.Event()
        self.master_is_up.set()
        self.changed = asyncio.Event()
        self.heartbeats = self.events = self.moves = self.failures = 0
        self._failures_before = 0

    async def __aenter__(self) -> Crowd:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for member in self.members.values():
            await member.close()

    @property
    def all_failures(self) -> int:
        """The failures of all steps."""
        return self._failures_before + self.failures

    def reset_counts(self) -> None:
        """Begin to count anew."""
        self._failures_before += self.failures
        self.heartbeats = self.events = self.moves = self.failures = 0
        for member in self.members.values():
            member.registered = False

    def start(self, count: int) -> None:
        """Let so many members join at once."""
        for number in range(count):
            group = f"group{number % self._groups}"
            name = f"{group}_127.0.0.1-{number}-1-1-Pull-1.0"
            topic = self._topics[number % self._groups % len(self._topics)]
            self.members[name] = member = Member(self, group, name, topic)
            self._tasks[name] = asyncio.create_task(member.run())

    async def leave(self, names: Iterable[str]) -> None:
        """Let members leave at once."""
        leaving = [self.members.pop(name) for name in names]
        tasks = [self._tasks.pop(member.name) for member in leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(member.leave() for member in leaving))

    async def served(self) -> None:
        """Wait until each group has each partition with exactly one member."""
        await self._until(self._is_served)

    async def registered(self) -> None:
        """Wait until every member has registered since the counts were reset."""
        await self._until(lambda: all(member.registered for member in self.members.values()))

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self.changed.clear()
            await self.changed.wait()
            await asyncio.sleep(0.05)  # the look costs more than an answer

    def _is_served(self) -> bool:
        held: dict[str, list[str]] = {}
        for member in self.members.values():
            # Behind the consumer's name, which is first.
            held.setdefault(member.group, []).extend(info.partition("#")[2] for info in member.holds)
        return len(held) == self._groups and all(
            len(infos) == len(set(infos)) == self._partitions for infos in held.values()
        )
