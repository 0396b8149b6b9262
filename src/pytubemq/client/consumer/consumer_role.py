"""A consumer's requests to the Master, and the execution of the Master's events.

The invariants: one event is executed at a time, and the very next heartbeat reports that it is done; meanwhile
heartbeats go on; the partitions reported are those that this client has registered or is registering.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from pytubemq.client.consumer.admission_errors import add_hint, find_deleted_topics, missing_topics_error
from pytubemq.client.session.entry_reader import ENTRIES
from pytubemq.client.session.membership import LongPollPause
from pytubemq.errors import GroupMismatchError, NotAllowedError, NotFoundError
from pytubemq.model.ids import BrokerInfo, Partition
from pytubemq.model.limits import HEARTBEAT_PERIOD_S, MAX_HEARTBEAT_WAIT_S
from pytubemq.model.missing_topic import missing_text
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import (
    CloseRequestC2M,
    CloseResponseM2C,
    EventProto,
    HeartRequestC2M,
    HeartResponseM2C,
    RegisterRequestC2M,
    RegisterResponseM2C,
)
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.text.partition_strings import (
    SubscribeInfo,
    format_required_partition,
    format_subscribe_info,
    parse_subscribe_info,
)
from pytubemq.wire.text.topic_strings import TopicCondition, format_topic_condition

if TYPE_CHECKING:
    from pytubemq.client.session.requests import Requester

CONNECT_OPS = frozenset({1, 10})
DISCONNECT_OPS = frozenset({2, 20})
QUIET_OPS = frozenset({3, 4, 5})
"""Report, refresh and stop balancing: they ask for nothing but a response."""
DONE, NOT_DONE = 2, -2
BUSY_PERIOD_S = 2.0
"""Period of heartbeats while an event is executed; its end sends the next one at once."""
EAGER_PERIOD_S = 0.3
"""Period of heartbeats without a partition, at a Master that has no long poll for heartbeats."""
REPORT_EVERY = 6
"""Every so many heartbeats report all partitions (the original's number)."""

Held = Sequence[tuple[BrokerInfo, Partition]]
Handler = Callable[[bool, list[SubscribeInfo]], Awaitable[None]]


logger = logging.getLogger(__name__)

DELETION_CHECKS = 4
"""Checks for deleted topics after an event revoked the last partition: a topic's record is deleted a little after its
partitions."""


class ConsumerRole:
    """The role of a consumer in its membership at the Master."""

    def __init__(
        self,
        member: Requester,
        *,
        held: Callable[[], Held],
        work: Callable[[Callable[[], Awaitable[None]]], None],
        handle: Handler,
        poke: Callable[[], None],
    ) -> None:
        """`handle(connect, infos)` executes an event; `work` runs it as an owned task; `held` lists the partitions."""
        self.client_id = member.client_id
        self._cluster = member.cluster
        self._options = member.options
        self._flow = member.flow
        self._not_allocated = True
        """True until the Master has divided the partitions or sent an event."""
        self._held = held
        self._work = work
        self._handle = handle
        self._poke = poke
        self._checks_left = 0
        """Heartbeats that still check whether the topics exist, since an event revoked the last partition."""
        self._started_ms = time.time_ns() // 1_000_000
        self._current_event: int | None = None
        self._done: EventProto | None = None
        self._last_done: int | None = None
        self._beats = 0
        self._report_next = False
        self._long_poll_pause = LongPollPause()

    async def register(self) -> None:
        """Send RegisterRequestC2M, with the partitions that are still registered if this is not the first time.

        Raises:
            NotFoundError: a topic does not exist.
            GroupMismatchError: the group reads something else.
            NotAllowedError: the group is not let in, or not with these filters.
        """
        try:
            await self._register()
        except NotFoundError as error:
            raise await missing_topics_error(error, self._options.topics, self._cluster) from error
        except (GroupMismatchError, NotAllowedError) as error:
            raise add_hint(error) from error
        # Events of the time before are void: the Master plans anew from what was reported.
        self._done = None
        self._last_done = None
        self._long_poll_pause.reset()

    async def _register(self) -> None:
        options, bound = self._options, self._options.bound
        response = await self._cluster.call_master(
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
        self._learn(response)

    async def heartbeat(self) -> float:
        """Send HeartRequestC2M with the finished event, and start the next one."""
        done = self._done
        held_answer = self._cluster.master_has(Capability.HEARTBEAT_WAIT)
        wait_s = MAX_HEARTBEAT_WAIT_S if held_answer and self._current_event is None else 0.0
        self._beats += 1
        report = self._current_event is None and (
            done is not None or self._report_next or self._beats % REPORT_EVERY == 0
        )
        before_s = asyncio.get_running_loop().time()
        response = await self._cluster.call_master(
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
        self._learn(response, has_event=response.event is not None)
        if done is not None and self._done is done:
            self._done = None
        if report:
            self._report_next = False
        took_s = asyncio.get_running_loop().time() - before_s
        self._start_event(response.event)
        await self._warn_if_deleted()
        return self._pause_s(took_s, held_answer=held_answer)

    async def _warn_if_deleted(self) -> None:
        """Log topics that were deleted, after an event took the last partition; the member waits for them."""
        if not self._checks_left or self._current_event is not None:
            return
        self._checks_left = 0 if self._held() else self._checks_left - 1
        if self._checks_left and (gone := await find_deleted_topics(self._cluster, self._options.topics)):
            self._checks_left = 0
            logger.warning(
                "group %s: %s any more; its member %s waits until it is created again",
                self._options.group,
                missing_text(gone),
                self.client_id,
            )

    async def goodbye(self) -> None:
        """Send CloseRequestC2M."""
        await self._cluster.call_master(
            CloseRequestC2M(client_id=self.client_id, group_name=self._options.group),
            CloseResponseM2C,
            Method.CONSUMER_CLOSE_C2M,
        )

    def first_offset(self, partition: Partition) -> int | None:
        """Return the offset at which a bound consumer begins its first partitions; None for the group's position."""
        bound = self._options.bound
        return bound.offsets.get(partition) if bound is not None and self._not_allocated else None

    def _learn(self, response: RegisterResponseM2C | HeartResponseM2C, *, has_event: bool = False) -> None:
        self._cluster.learn_token(response.authorized_info, self.client_id)
        self._flow.update(response)
        if response.not_allocated is False and self._current_event is None and not has_event:
            self._not_allocated = False  # or else others were quicker with their part of the same division

    def report_soon(self) -> None:
        """Report the partitions with the next heartbeat, because they changed without an event."""
        self._report_next = True
        self._poke()

    def _start_event(self, event: EventProto | None) -> None:
        number = 0 if event is None else event.rebalance_id or 0
        if event is None or number <= 0 or self._current_event is not None or number == self._last_done:
            return
        self._current_event = number
        self._long_poll_pause.reset()
        self._work(lambda: self._execute_event(event, number))

    async def _execute_event(self, event: EventProto, number: int) -> None:
        infos = ENTRIES.read(event.subscribe_info, parse_subscribe_info, "an event of the Master")
        status = DONE
        if event.op_type in CONNECT_OPS:
            await self._handle(True, infos)
        elif event.op_type in DISCONNECT_OPS:
            await self._handle(False, infos)
            self._checks_left = 0 if self._held() else DELETION_CHECKS
        elif event.op_type not in QUIET_OPS:
            logger.warning(
                "%s refuses an event of the Master whose type %s it does not know; nothing changes",
                self.client_id,
                event.op_type,
            )
            status = NOT_DONE
        self._not_allocated = self._not_allocated and status != DONE
        self._done = EventProto(
            rebalance_id=number, op_type=event.op_type, status=status, subscribe_info=event.subscribe_info
        )
        self._last_done = number
        self._current_event = None
        self._poke()

    def _pause_s(self, took_s: float, *, held_answer: bool) -> float:
        if self._done is not None:
            return 0.0
        if self._current_event is not None:
            return BUSY_PERIOD_S
        if not held_answer:
            return HEARTBEAT_PERIOD_S if self._held() else EAGER_PERIOD_S
        return self._long_poll_pause.pause_s(took_s)

    def _subscribe_info(self) -> tuple[str, ...]:
        return tuple(
            format_subscribe_info(SubscribeInfo(self.client_id, self._options.group, broker, partition))
            for broker, partition in self._held()
        )
