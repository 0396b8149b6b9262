"""A self-balancing consumer's requests to the Master: registration, heartbeats with its partitions, metadata.

The invariants: the Master hears of a change in what is held with the next heartbeat and then from time to time; a
command to go to the newest messages that was given before this consumer registered is none for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

from pytubemq.client.consumer.admission_errors import add_hint, missing_topics_error
from pytubemq.client.consumer.client_balance.partition_metadata import PartitionMeta
from pytubemq.client.session.cluster_connection import is_refusal
from pytubemq.client.session.membership import LongPollPause
from pytubemq.client.session.requests import Requester
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
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import (
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
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.text.partition_strings import format_part_sub_info
from pytubemq.wire.text.topic_strings import TopicCondition, format_topic_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from pytubemq.client.options import BalanceOptions
    from pytubemq.model.ids import Partition

logger = logging.getLogger(__name__)

REPORT_EVERY = 60
"""Every so many heartbeats report all partitions (the original's number)."""
REPORT_AFTER_S = 0.2
"""Delay of the report of a change, so that changes that follow closely are reported together."""
NODE_RETRY_S = 1.0
CLOSED_CHECK_S = 2.0
"""Longest period of metadata requests while a partition cannot be consumed."""


class BalanceMember(Requester, Protocol):
    """The consumer whose role it is."""

    @property
    def options(self) -> BalanceOptions:
        """The options it was made with."""
        ...


class BalanceRole:
    """The role of a self-balancing consumer in its membership at the Master."""

    def __init__(
        self,
        member: BalanceMember,
        *,
        held: Callable[[], Collection[Partition]],
        changed: Callable[[], None],
        to_newest: Callable[[], None],
        work: Callable[[Coroutine[Any, Any, None]], None],
        poke: Callable[[], None],
    ) -> None:
        """`held` lists the connected partitions; `changed` is called for new ones, `to_newest` for the command to go
        there.

        `work` runs an owned task, `poke` ends the pause before the next heartbeat.
        """
        self.client_id = member.client_id
        self.meta = PartitionMeta(member.cluster.parse_broker)
        self.reported_s = float("-inf")
        """When the Master last reported partitions, changed or not."""
        self._cluster = member.cluster
        self._options = member.options
        self._held = held
        self._changed = changed
        self._flow = member.flow
        self._to_newest = to_newest
        self._work = work
        self._poke = poke
        self._query_lock = asyncio.Lock()
        self._queried_s = float("-inf")
        self._newest_id = UNDEFINED
        self._registered_before = False
        self._reported: frozenset[Partition] | None = frozenset()
        """The partitions last reported to the Master; None if the report may have been lost."""
        self._waiting = False
        """True while the Master may be holding a heartbeat."""
        self._long_poll_pause = LongPollPause()
        self._beats = 0
        self._report_timer: asyncio.TimerHandle | None = None

    # --- the membership -------------------------------------------------------------------------------------

    async def register(self) -> None:
        """Send RegisterRequestC2MV2, with the connected partitions if this is not the first time.

        A node number that another member has is waited for: its owner may be dead, and the Master not know it yet.

        Raises:
            NotFoundError: a topic does not exist.
            GroupMismatchError: the group reads something else, is balanced otherwise, or has another with our number.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._options.node_wait_s
        waiting = False
        while True:
            try:
                await self._register()
                return
            except NotFoundError as error:
                raise await missing_topics_error(error, self._options.topics, self._cluster) from error
            except GroupMismatchError as error:
                if not is_refusal(error, Code.CLIENT_DUPLICATE_INDEXID) or loop.time() + NODE_RETRY_S > until_s:
                    raise add_hint(error, self._hints()) from error
                if not waiting:
                    logger.warning("%s: %s; waiting for it to leave", self._options.group, error.message)
                waiting = True
            except NotAllowedError as error:
                raise add_hint(error) from error
            except TubeError as error:
                # the Master that has us wait may be started anew meanwhile
                if not waiting or verdict(error) is not Verdict.RETRY or loop.time() + NODE_RETRY_S > until_s:
                    raise
            await asyncio.sleep(NODE_RETRY_S)

    def _hints(self) -> dict[int, str]:
        """Return the hints that differ from those of other consumers."""
        return {
            Code.CLIENT_DUPLICATE_INDEXID: f"another running member of the group is node {self._options.node_id}; "
            "give each its own node_id",
            Code.CLIENT_INCONSISTENT_CONSUMETYPE: "a group is balanced either by the Master or by its members; "
            "use another group name",
        }

    async def _register(self) -> None:
        options = self._options
        source_count, node_id = options.numbers
        self._reported = frozenset()  # a Master that takes us in knows nothing of us
        report = self._make_report()
        response = await self._cluster.call_master(
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
                ops_task_info=self._task_ids(),
            ),
            RegisterResponseM2CV2,
            Method.CONSUMER_REGISTER_C2M_V2,
        )
        self._cluster.learn_token(response.authorized_info, self.client_id)
        self._cluster.learn_brokers(self.meta.update_brokers(response.broker_config_id, response.broker_config_list))
        self._apply_tasks(response.ops_task_info)
        self._long_poll_pause.reset()
        self._registered_before = True

    async def heartbeat(self) -> float:
        """Send HeartRequestC2MV2 with the connected partitions. A pytubemq Master holds it until there is news."""
        if not self._cluster.master_has(Capability.HEARTBEAT_WAIT):
            await self._send_heartbeat(wait_s=0.0)
            return HEARTBEAT_PERIOD_S
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._waiting = True
        try:
            await self._send_heartbeat(wait_s=MAX_HEARTBEAT_WAIT_S)
        finally:
            self._waiting = False
        return self._long_poll_pause.pause_s(loop.time() - began_s)

    async def _send_heartbeat(self, *, wait_s: float) -> None:
        self._beats += 1
        report = self._make_report(anyway=self._beats % REPORT_EVERY == 0)
        try:
            response = await self._cluster.call_master(
                HeartRequestC2MV2(
                    client_id=self.client_id,
                    group_name=self._options.group,
                    sub_rep_info=report,
                    ops_task_info=self._task_ids(),
                    max_wait_ms=int(wait_s * 1000) if wait_s > 0 else None,
                ),
                HeartResponseM2CV2,
                Method.CONSUMER_HEARTBEAT_C2M_V2,
                wait_s=wait_s,
            )
        except BaseException:
            self._reported = None
            raise
        self._cluster.learn_token(response.authorized_info, self.client_id)
        self._update_metadata(response)
        self._apply_tasks(response.ops_task_info)

    async def goodbye(self) -> None:
        """Send CloseRequestC2M, as all consumers do."""
        self._stop_timer()
        await self._cluster.call_master(
            CloseRequestC2M(client_id=self.client_id, group_name=self._options.group),
            CloseResponseM2C,
            Method.CONSUMER_CLOSE_C2M,
        )

    # --- what there is --------------------------------------------------------------------------------------

    async def refresh_metadata(self) -> None:
        """Send GetPartMetaRequestC2M, unless the last response is younger than the check period.

        That is shorter while there is something that cannot be consumed: a Broker that is back is not kept waiting.

        Raises:
            NotRegisteredError: the Master has forgotten us; we register again by ourselves.
        """
        loop = asyncio.get_running_loop()
        async with self._query_lock:
            if loop.time() - self._queried_s < self.check_s:
                return
            try:
                response = await self._cluster.call_master(
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
            self._queried_s = loop.time()
            self._update_metadata(response)

    @property
    def check_s(self) -> float:
        """Seconds for which partition metadata is used."""
        period_s = self._options.meta_check_s
        return min(period_s, CLOSED_CHECK_S) if self.meta.closed_since_s else period_s

    def _update_metadata(self, response: HeartResponseM2CV2 | GetPartMetaResponseM2C) -> None:
        meta = self.meta
        self._cluster.learn_brokers(meta.update_brokers(response.broker_config_id, response.broker_config_list))
        if (response.topic_meta_info_id or UNDEFINED) >= 0:
            self.reported_s = asyncio.get_running_loop().time()
        now_ms, now_s = time.time_ns() // 1_000_000, asyncio.get_running_loop().time()
        if meta.update_topics(response.topic_meta_info_id, response.topic_meta_info_list, now_ms=now_ms, now_s=now_s):
            self._queried_s = now_s
            self._changed()

    # --- what is held ---------------------------------------------------------------------------------------

    def report_soon(self) -> None:
        """Report the changed partitions to the Master in a moment."""
        if self._report_timer is None:
            self._report_timer = asyncio.get_running_loop().call_later(REPORT_AFTER_S, self._report_now)

    def _report_now(self) -> None:
        self._report_timer = None
        self._long_poll_pause.reset()
        if self._waiting:
            self._work(self._send_report())  # a second heartbeat has the Master respond to the one it holds
        else:
            self._poke()

    async def _send_report(self) -> None:
        with contextlib.suppress(TubeError):  # the next heartbeat reports it then
            await self._send_heartbeat(wait_s=0.0)

    def _stop_timer(self) -> None:
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None

    def _make_report(self, *, anyway: bool = False) -> ClientSubRepInfo:
        """Return the report for the request that is sent now."""
        held = frozenset(self._held())
        changed = held != self._reported or (anyway and bool(held))
        by_topic: dict[str, list[tuple[int, int]]] = {}
        for partition in sorted(held) if changed else ():
            by_topic.setdefault(partition.topic, []).append((partition.broker_id, partition.partition_id))
        meta = self.meta
        self._reported = held
        return ClientSubRepInfo(
            broker_config_id=meta.brokers_id,
            topic_meta_info_id=meta.topics_id,
            lst_assigned_time=meta.changed_ms,
            report_sub_info=changed,
            part_sub_info=tuple(format_part_sub_info(topic, items) for topic, items in by_topic.items()),
        )

    # --- tasks from the operators ---------------------------------------------------------------------------

    def _task_ids(self) -> OpsTaskInfo | None:
        """Return the ids of the rules and commands that are known; None if there are none."""
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

    def _apply_tasks(self, ops: OpsTaskInfo | None) -> None:
        if ops is None:
            return
        self._flow.update(
            dataclasses.replace(  # here what is left out is not in force
                ops,
                group_flow_check_id=UNDEFINED if ops.group_flow_check_id is None else ops.group_flow_check_id,
                def_flow_check_id=UNDEFINED if ops.def_flow_check_id is None else ops.def_flow_check_id,
            )
        )
        newest_id = ops.csm_frm_max_offset_ctrl_id
        if newest_id is None or newest_id <= self._newest_id:
            return
        self._newest_id = newest_id
        if self._registered_before:
            logger.warning("%s: an operator has sent the group to the newest messages", self._options.group)
            self._to_newest()
