"""What a consumer that balances itself says to the Master: that it is there, what it holds, and what there is.

The invariants: the Master hears of a change in what is held with the next heartbeat and then from time to time; a
command to go to the newest messages that was given before this consumer registered is none for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from typing import TYPE_CHECKING, Any

from pytubemq.client.balance.meta import PartitionMeta
from pytubemq.client.cluster import is_refusal
from pytubemq.client.membership import HeldPacing
from pytubemq.client.misfits import missing, with_hint
from pytubemq.core.retry import Verdict, verdict
from pytubemq.errors import (
    Code,
    GroupMismatchError,
    NotAllowedError,
    NotFoundError,
    NotRegisteredError,
    TubeError,
)
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import HEARTBEAT_PERIOD_S, MAX_HEARTBEAT_WAIT_S
from pytubemq.wire.extensions import Capability
from pytubemq.wire.messages.master import (
    ClientSubRepInfo,
    CloseRequestC2M,
    CloseResponseM2C,
    GetPartMetaRequestC2M,
    GetPartMetaResponseM2C,
    HeartRequestC2MV2,
    HeartResponseM2CV2,
    OpsTaskInfo,
    RegisterRequestC2MV2,
    RegisterResponseM2CV2,
)
from pytubemq.wire.methods import Method
from pytubemq.wire.strings import TopicCondition, format_part_sub_info, format_topic_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from pytubemq.client.balance.options import BalanceOptions
    from pytubemq.client.cluster import Cluster
    from pytubemq.client.flow import Flow
    from pytubemq.model.ids import Partition

logger = logging.getLogger(__name__)

REPORT_EVERY = 60
"""Every so many heartbeats the Master gets the whole list of held partitions (the original's number)."""
REPORT_AFTER_S = 0.2
"""A change in what is held is told so much later, together with the changes that follow it closely."""
NODE_RETRY_S = 1.0
CLOSED_CHECK_S = 2.0
"""How often the Master is asked at least while something cannot be consumed."""


class BalanceRole:
    """A self-balancing consumer's side of its membership at the Master."""

    def __init__(
        self,
        cluster: Cluster,
        options: BalanceOptions,
        client_id: str,
        *,
        held: Callable[[], Collection[Partition]],
        flow: Flow,
        changed: Callable[[], None],
        to_newest: Callable[[], None],
        work: Callable[[Coroutine[Any, Any, None]], None],
        poke: Callable[[], None],
    ) -> None:
        """`held` lists what we have; `changed` hears of new partitions, `to_newest` of the command to go there.

        `work` runs an owned task, `poke` ends the pause before the next heartbeat.
        """
        self.client_id = client_id
        self.meta = PartitionMeta()
        self.heard_s = float("-inf")
        """When the Master last spoke of partitions, if only to say that nothing has changed."""
        self._cluster = cluster
        self._options = options
        self._held = held
        self._changed = changed
        self._flow = flow
        self._to_newest = to_newest
        self._work = work
        self._poke = poke
        self._asking = asyncio.Lock()
        self._asked_s = float("-inf")
        self._newest_id = UNDEFINED
        self._registered_before = False
        self._reported: frozenset[Partition] | None = frozenset()
        """What the Master was told to be held; None when it may not have heard."""
        self._waiting = False
        """Whether the Master may be holding a heartbeat of ours."""
        self._pacing = HeldPacing()
        self._beats = 0
        self._report_timer: asyncio.TimerHandle | None = None

    # --- the membership -------------------------------------------------------------------------------------

    async def register(self) -> None:
        """RegisterRequestC2MV2, with the partitions that are held if this is not the first time.

        A node number that another member has is waited for: its owner may be dead, and the Master not know it yet.

        Raises:
            NotFoundError: a topic does not exist.
            GroupMismatchError: the group reads something else, is balanced otherwise, or has another with our number.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._options.node_wait_s
        told = False
        while True:
            try:
                await self._register()
                return
            except NotFoundError as error:
                raise missing(error, self._options.topics) from error
            except GroupMismatchError as error:
                if not is_refusal(error, Code.CLIENT_DUPLICATE_INDEXID) or loop.time() + NODE_RETRY_S > until_s:
                    raise with_hint(error, self._hints()) from error
                if not told:
                    logger.warning("%s: %s; waiting for it to leave", self._options.group, error.message)
                told = True
            except NotAllowedError as error:
                raise with_hint(error) from error
            except TubeError as error:
                # the Master that has us wait may be started anew meanwhile
                if not told or verdict(error) is not Verdict.RETRY or loop.time() + NODE_RETRY_S > until_s:
                    raise
            await asyncio.sleep(NODE_RETRY_S)

    def _hints(self) -> dict[int, str]:
        """What to do where it is different from what other consumers do."""
        return {
            Code.CLIENT_DUPLICATE_INDEXID: f"another running member of the group is node {self._options.node_id}; "
            "give each its own node_id",
            Code.CLIENT_INCONSISTENT_CONSUMETYPE: "a group is balanced by the Master or by itself, not both; "
            "use another group name",
        }

    async def _register(self) -> None:
        options = self._options
        source_count, node_id = options.numbers
        self._reported = frozenset()  # a Master that takes us in knows nothing of us
        report = self._report()
        answer = await self._cluster.ask_master(
            RegisterRequestC2MV2(
                client_id=self.client_id,
                group_name=options.group,
                host_name=self._cluster.host,
                source_count=source_count,
                node_id=node_id,
                topic_list=options.topics,
                topic_condition=tuple(
                    format_topic_condition(TopicCondition(topic, tuple(items)))
                    for topic, items in sorted(options.filters.items())
                ),
                sub_rep_info=report,
                ops_task_info=self._ops(),
            ),
            RegisterResponseM2CV2,
            Method.CONSUMER_REGISTER_C2M_V2,
        )
        self._cluster.learn_token(answer.authorized_info)
        self._cluster.learn_brokers(self.meta.take_brokers(answer.broker_config_id, answer.broker_config_list))
        self._take_ops(answer.ops_task_info)
        self._pacing.reset()
        self._registered_before = True

    async def heartbeat(self) -> float:
        """HeartRequestC2MV2: still here, and what is held. A Master of ours holds it until there is news."""
        if not self._cluster.master_has(Capability.HEARTBEAT_WAIT):
            await self._beat(wait_s=0.0)
            return HEARTBEAT_PERIOD_S
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._waiting = True
        try:
            await self._beat(wait_s=MAX_HEARTBEAT_WAIT_S)
        finally:
            self._waiting = False
        return self._pacing.pause_s(loop.time() - began_s)

    async def _beat(self, *, wait_s: float) -> None:
        self._beats += 1
        report = self._report(anyway=self._beats % REPORT_EVERY == 0)
        try:
            answer = await self._cluster.ask_master(
                HeartRequestC2MV2(
                    client_id=self.client_id,
                    group_name=self._options.group,
                    sub_rep_info=report,
                    ops_task_info=self._ops(),
                    max_wait_ms=int(wait_s * 1000) if wait_s > 0 else None,
                ),
                HeartResponseM2CV2,
                Method.CONSUMER_HEARTBEAT_C2M_V2,
                wait_s=wait_s,
            )
        except BaseException:
            self._reported = None
            raise
        self._cluster.learn_token(answer.authorized_info)
        self._take(answer)
        self._take_ops(answer.ops_task_info)

    async def goodbye(self) -> None:
        """CloseRequestC2M: both kinds of consumers leave in the same way."""
        self._stop_timer()
        await self._cluster.ask_master(
            CloseRequestC2M(client_id=self.client_id, group_name=self._options.group),
            CloseResponseM2C,
            Method.CONSUMER_CLOSE_C2M,
        )

    # --- what there is --------------------------------------------------------------------------------------

    async def ask_meta(self) -> None:
        """GetPartMetaRequestC2M, unless the last answer is younger than the check period.

        That is shorter while there is something that cannot be consumed: a Broker that is back is not kept waiting.

        Raises:
            NotRegisteredError: the Master has forgotten us; we register again by ourselves.
        """
        loop = asyncio.get_running_loop()
        async with self._asking:
            if loop.time() - self._asked_s < self.check_s:
                return
            try:
                answer = await self._cluster.ask_master(
                    GetPartMetaRequestC2M(
                        client_id=self.client_id,
                        group_name=self._options.group,
                        broker_config_id=self.meta.brokers_id,
                        topic_meta_info_id=self.meta.topics_id,
                    ),
                    GetPartMetaResponseM2C,
                    Method.GET_PART_META_C2M,
                )
            except NotRegisteredError:
                self._poke()
                raise
            self._asked_s = loop.time()
            self._take(answer)

    @property
    def check_s(self) -> float:
        """For how long an answer about partitions will do."""
        period_s = self._options.meta_check_s
        return min(period_s, CLOSED_CHECK_S) if self.meta.closed_since_s else period_s

    def _take(self, answer: HeartResponseM2CV2 | GetPartMetaResponseM2C) -> None:
        meta = self.meta
        self._cluster.learn_brokers(meta.take_brokers(answer.broker_config_id, answer.broker_config_list))
        if (answer.topic_meta_info_id or UNDEFINED) >= 0:
            self.heard_s = asyncio.get_running_loop().time()
        now_ms, now_s = time.time_ns() // 1_000_000, asyncio.get_running_loop().time()
        if meta.take_topics(answer.topic_meta_info_id, answer.topic_meta_info_list, now_ms=now_ms, now_s=now_s):
            self._asked_s = now_s
            self._changed()

    # --- what is held ---------------------------------------------------------------------------------------

    def report_soon(self) -> None:
        """What is held has changed: tell the Master in a moment."""
        if self._report_timer is None:
            self._report_timer = asyncio.get_running_loop().call_later(REPORT_AFTER_S, self._report_now)

    def _report_now(self) -> None:
        self._report_timer = None
        self._pacing.reset()
        if self._waiting:
            self._work(self._tell())  # a second heartbeat has the Master answer the one it holds
        else:
            self._poke()

    async def _tell(self) -> None:
        with contextlib.suppress(TubeError):  # the next heartbeat tells it then
            await self._beat(wait_s=0.0)

    def _stop_timer(self) -> None:
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None

    def _report(self, *, anyway: bool = False) -> ClientSubRepInfo:
        """What the Master is told with the request that is sent now."""
        held = frozenset(self._held())
        tell = held != self._reported or (anyway and bool(held))
        by_topic: dict[str, list[tuple[int, int]]] = {}
        for partition in sorted(held) if tell else ():
            by_topic.setdefault(partition.topic, []).append((partition.broker_id, partition.partition_id))
        meta = self.meta
        self._reported = held
        return ClientSubRepInfo(
            broker_config_id=meta.brokers_id,
            topic_meta_info_id=meta.topics_id,
            lst_assigned_time=meta.told_ms,
            report_sub_info=tell,
            part_sub_info=tuple(format_part_sub_info(topic, items) for topic, items in by_topic.items()),
        )

    # --- tasks from the operators ---------------------------------------------------------------------------

    def _ops(self) -> OpsTaskInfo | None:
        """The numbers of what we have; only those that there are."""
        flow = self._flow
        numbers = (flow.group_id, flow.default_id, flow.priority, self._newest_id)
        group_id, default_id, priority, newest_id = (None if number < 0 else number for number in numbers)
        if group_id is default_id is priority is newest_id is None:
            return None
        return OpsTaskInfo(
            group_flow_check_id=group_id,
            def_flow_check_id=default_id,
            qry_priority_id=priority,
            csm_frm_max_offset_ctrl_id=newest_id,
        )

    def _take_ops(self, ops: OpsTaskInfo | None) -> None:
        if ops is None:
            return
        self._flow.take(
            dataclasses.replace(  # here what is left out is not in force
                ops,
                group_flow_check_id=UNDEFINED if ops.group_flow_check_id is None else ops.group_flow_check_id,
                def_flow_check_id=UNDEFINED if ops.def_flow_check_id is None else ops.def_flow_check_id,
            )
        )
        told = ops.csm_frm_max_offset_ctrl_id
        if told is None or told <= self._newest_id:
            return
        self._newest_id = told
        if self._registered_before:
            logger.warning("%s: an operator has sent the group to the newest messages", self._options.group)
            self._to_newest()
