"""What a consumer says to the Master, and what the Master's events make it do.

The invariants: one event is in work at a time, and the Master hears that it is done with the very next heartbeat;
while an event is in work heartbeats go on; what is reported as held is what this client holds or is registering for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from pytubemq.client.entries import ENTRIES
from pytubemq.client.membership import HeldPacing
from pytubemq.client.misfits import missing, with_hint
from pytubemq.errors import GroupMismatchError, NotAllowedError, NotFoundError
from pytubemq.model.ids import BrokerInfo, Partition
from pytubemq.model.limits import HEARTBEAT_PERIOD_S, MAX_HEARTBEAT_WAIT_S
from pytubemq.wire.extensions import Capability
from pytubemq.wire.messages.master import (
    CloseRequestC2M,
    CloseResponseM2C,
    EventProto,
    HeartRequestC2M,
    HeartResponseM2C,
    RegisterRequestC2M,
    RegisterResponseM2C,
)
from pytubemq.wire.methods import Method
from pytubemq.wire.strings import (
    SubscribeInfo,
    TopicCondition,
    format_required_partition,
    format_subscribe_info,
    format_topic_condition,
    parse_subscribe_info,
)

if TYPE_CHECKING:
    from pytubemq.client.cluster import Cluster
    from pytubemq.client.flow import Flow
    from pytubemq.client.options import ConsumerOptions

CONNECT_OPS = frozenset({1, 10})
DISCONNECT_OPS = frozenset({2, 20})
DONE = 2
BUSY_PERIOD_S = 2.0
"""Heartbeats while an event is in work; its end sends the next one at once."""
EAGER_PERIOD_S = 0.3
"""While nothing is held yet, at a Master that cannot hold a heartbeat until it has news."""
REPORT_EVERY = 6
"""Every so many heartbeats the Master gets the whole list of held partitions (the original's number)."""

Held = Sequence[tuple[BrokerInfo, Partition]]
Handler = Callable[[bool, list[SubscribeInfo]], Awaitable[None]]


class ConsumerRole:
    """A consumer's side of its membership at the Master."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        client_id: str,
        *,
        flow: Flow,
        held: Callable[[], Held],
        work: Callable[[Callable[[], Awaitable[None]]], None],
        handle: Handler,
        poke: Callable[[], None],
    ) -> None:
        """`handle(connect, infos)` carries out an event; `work` runs it as an owned task; `held` lists what we have."""
        self.client_id = client_id
        self._cluster = cluster
        self._options = options
        self._flow = flow
        self._not_allocated = True
        """Whether the Master has not divided the partitions yet, and no event has come."""
        self._held = held
        self._work = work
        self._handle = handle
        self._poke = poke
        self._started_ms = time.time_ns() // 1_000_000
        self._in_work: int | None = None
        self._done: EventProto | None = None
        self._last_done: int | None = None
        self._beats = 0
        self._report_next = False
        self._pacing = HeldPacing()

    async def register(self) -> None:
        """RegisterRequestC2M, with the partitions that are still held if this is not the first time.

        Raises:
            NotFoundError: a topic does not exist.
            GroupMismatchError: the group reads something else.
            NotAllowedError: the group is not let in, or not with these filters.
        """
        try:
            await self._register()
        except NotFoundError as error:
            raise missing(error, self._options.topics) from error
        except (GroupMismatchError, NotAllowedError) as error:
            raise with_hint(error) from error
        # Events of the time before are void: the Master plans anew from what was reported.
        self._done = None
        self._last_done = None
        self._pacing.reset()

    async def _register(self) -> None:
        options, bound = self._options, self._options.bound
        answer = await self._cluster.ask_master(
            RegisterRequestC2M(
                client_id=self.client_id,
                group_name=options.group,
                host_name=self._cluster.host,
                topic_list=options.topics,
                subscribe_info=self._subscribe_info(),
                topic_condition=tuple(
                    format_topic_condition(TopicCondition(topic, tuple(items)))
                    for topic, items in sorted(options.filters.items())
                ),
                require_bound=bound is not None,
                session_time=self._started_ms,
                session_key=None if bound is None else bound.session_key,
                total_count=None if bound is None else bound.source_count,
                required_partition=None if bound is None else format_required_partition(dict(bound.offsets)),
                select_big=None if bound is None else bound.select_big,
                not_allocated=None if bound is None else self._not_allocated,
                def_flow_check_id=self._flow.default_id,
                group_flow_check_id=self._flow.group_id,
                qry_priority_id=self._flow.priority,
            ),
            RegisterResponseM2C,
            Method.CONSUMER_REGISTER_C2M,
        )
        self._learn(answer)

    async def heartbeat(self) -> float:
        """HeartRequestC2M: hand in the finished event, take the next one."""
        done = self._done
        held_answer = self._cluster.master_has(Capability.HEARTBEAT_WAIT)
        wait_s = MAX_HEARTBEAT_WAIT_S if held_answer and self._in_work is None else 0.0
        self._beats += 1
        report = self._in_work is None and (done is not None or self._report_next or self._beats % REPORT_EVERY == 0)
        before_s = asyncio.get_running_loop().time()
        answer = await self._cluster.ask_master(
            HeartRequestC2M(
                client_id=self.client_id,
                group_name=self._options.group,
                subscribe_info=self._subscribe_info() if report else (),
                report_subscribe_info=report,
                event=done,
                def_flow_check_id=self._flow.default_id,
                group_flow_check_id=self._flow.group_id,
                qry_priority_id=self._flow.priority,
                max_wait_ms=int(wait_s * 1000) if wait_s > 0 else None,
            ),
            HeartResponseM2C,
            Method.CONSUMER_HEARTBEAT_C2M,
            wait_s=wait_s,
        )
        self._learn(answer, has_event=answer.event is not None)
        if done is not None and self._done is done:
            self._done = None
        if report:
            self._report_next = False
        took_s = asyncio.get_running_loop().time() - before_s
        self._take(answer.event)
        return self._pause_s(took_s, held_answer=held_answer)

    async def goodbye(self) -> None:
        """CloseRequestC2M."""
        await self._cluster.ask_master(
            CloseRequestC2M(client_id=self.client_id, group_name=self._options.group),
            CloseResponseM2C,
            Method.CONSUMER_CLOSE_C2M,
        )

    def first_offset(self, partition: Partition) -> int | None:
        """Where a bound consumer begins with its very first partitions; later ones are read where the group stands."""
        bound = self._options.bound
        return bound.offsets.get(partition) if bound is not None and self._not_allocated else None

    def _learn(self, answer: RegisterResponseM2C | HeartResponseM2C, *, has_event: bool = False) -> None:
        self._cluster.learn_token(answer.authorized_info)
        self._flow.take(answer)
        if answer.not_allocated is False and self._in_work is None and not has_event:
            self._not_allocated = False  # or else others were quicker with their part of the same division

    def report_soon(self) -> None:
        """What is held has changed without an event: tell the Master with the next heartbeat."""
        self._report_next = True
        self._poke()

    def _take(self, event: EventProto | None) -> None:
        number = 0 if event is None else event.rebalance_id or 0
        if event is None or number <= 0 or self._in_work is not None or number == self._last_done:
            return
        self._in_work = number
        self._pacing.reset()
        self._work(lambda: self._carry_out(event, number))

    async def _carry_out(self, event: EventProto, number: int) -> None:
        infos = ENTRIES.read(event.subscribe_info, parse_subscribe_info, "an event of the Master")
        if event.op_type in CONNECT_OPS:
            await self._handle(True, infos)
        elif event.op_type in DISCONNECT_OPS:
            await self._handle(False, infos)
        self._not_allocated = False
        # other operations (report, refresh, stop) ask for nothing but an answer
        self._done = EventProto(
            rebalance_id=number, op_type=event.op_type, status=DONE, subscribe_info=event.subscribe_info
        )
        self._last_done = number
        self._in_work = None
        self._poke()

    def _pause_s(self, took_s: float, *, held_answer: bool) -> float:
        if self._done is not None:
            return 0.0
        if self._in_work is not None:
            return BUSY_PERIOD_S
        if not held_answer:
            return HEARTBEAT_PERIOD_S if self._held() else EAGER_PERIOD_S
        return self._pacing.pause_s(took_s)

    def _subscribe_info(self) -> tuple[str, ...]:
        return tuple(
            format_subscribe_info(SubscribeInfo(self.client_id, self._options.group, broker, partition))
            for broker, partition in self._held()
        )
