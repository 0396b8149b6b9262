"""Requests of client-balanced consumers to the Master, and their responses.

The consumers share the partitions among themselves: the Master sends them the partitions and which of these can be
read, and ensures that no two consumers of a group are the same node. The invariant: every change of that has a new id
at once, so that one comparison of ids shows a consumer whether it is up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.core.balance.consistency import GroupKind, Terms
from pytubemq.core.balance.facts import Reported
from pytubemq.core.refusal import Refused
from pytubemq.core.request_fields import check_client_id, check_group_name, check_host_name
from pytubemq.errors import Code
from pytubemq.master import responses
from pytubemq.master.access.tokens import consumer_tokens
from pytubemq.master.client_connections import origin_of
from pytubemq.master.groups.consumer_methods import ConsumerMethods
from pytubemq.master.groups.group import MemberInfo
from pytubemq.master.groups.subscription import check_partitions, check_subscription
from pytubemq.master.registration_checks import check_other_text
from pytubemq.master.responses import UNCHANGED
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import META_FORCE_UPDATE_S
from pytubemq.wire.protocol.messages.master import (
    ClientSubRepInfo,
    GetPartMetaRequestC2M,
    GetPartMetaResponseM2C,
    HeartRequestC2MV2,
    HeartResponseM2CV2,
    OpsTaskInfo,
    RegisterRequestC2MV2,
    RegisterResponseM2CV2,
)
from pytubemq.wire.serialization.message_bytes import encode
from pytubemq.wire.text.read_partitions import part_sub_partitions

if TYPE_CHECKING:
    from pytubemq.master.groups.group import Group
    from pytubemq.master.groups.partition_metadata import PartitionMetadata
    from pytubemq.model.ids import Partition
    from pytubemq.net.server.call import Call


class ClientBalance(ConsumerMethods):
    """The three methods of client-balanced consumers; they leave with method 6, as all consumers do."""

    client_balanced = True
    heartbeats_of_others = "method 5, not 21 or 22"

    def register(self, call: Call, request: RegisterRequestC2MV2) -> RegisterResponseM2CV2:
        """Serve method 20. The checks and their order are the original's."""
        client_id = check_client_id(request.client_id, in_lists=True)
        host = check_host_name(request.host_name)
        name = check_group_name(request.group_name, in_lists=True)
        parts = request.sub_rep_info.part_sub_info if request.sub_rep_info is not None else ()
        check_other_text(call.size_bytes, request.topic_list, request.topic_condition, parts, client=client_id)
        topics, conditions = check_subscription(
            self._groups.brokers, client_id, request.topic_list, request.topic_condition
        )
        _check_node(client_id, request.source_count, request.node_id)
        check_partitions(self._groups.brokers, client_id, topics, sum(text.count(",") for text in parts))
        holds = _reported(request.sub_rep_info)
        self._authorization.check(name, topics, conditions)
        origin = origin_of(call.peer, call.connection)
        self._groups.check_room(name, client_id, call.connection, call.size_bytes, origin)
        mismatch = self._groups.join(
            name,
            client_id,
            Terms(topics, conditions, GroupKind.CLIENT_BALANCE, total_count=request.source_count),
            MemberInfo(host, call.peer, self._clock.wall_ms(), request.node_id, over_tls=call.connection.is_tls),
            holds=holds or frozenset(),
            allocated=True,
            size_bytes=call.size_bytes,
            origin=origin,
        )
        group = self._admit(name, client_id, call, mismatch)
        known_id = UNDEFINED if request.sub_rep_info is None else request.sub_rep_info.broker_config_id
        return RegisterResponseM2CV2(
            err_code=Code.SUCCESS,
            err_msg=responses.OK,
            broker_config_id=self._catalogue.broker_checksum,
            broker_config_list=self._brokers_unless(known_id, over_tls=call.connection.is_tls),
            ops_task_info=self._ops_task(group, request.ops_task_info),
            authorized_info=consumer_tokens(self._tokens, client_id, call.connection),
        )

    def heartbeat(self, call: Call, request: HeartRequestC2MV2) -> None:
        """Serve method 21: record what the consumer holds, and respond with changes; held until there are any."""
        client_id, group = self._find(request.client_id, request.group_name)
        parts = request.sub_rep_info.part_sub_info if request.sub_rep_info is not None else ()
        check_partitions(self._groups.brokers, client_id, group.terms.topics, sum(text.count(",") for text in parts))
        reported = _reported(request.sub_rep_info)
        self._groups.record_use(group, client_id, call.connection)
        if reported is not None:
            self._groups.record_report(group.name, client_id, call.size_bytes)
            self._groups.apply(group, Reported(client_id, reported))
        wait_s = self._allowed_wait_s(call, request.max_wait_ms)
        self._groups.hold(
            group, client_id, wait_s, lambda must: self._respond(group, client_id, call, request, must=must)
        )

    def part_meta(self, call: Call, request: GetPartMetaRequestC2M) -> GetPartMetaResponseM2C:
        """Serve method 22: respond with the partitions there are; it counts as a heartbeat."""
        client_id, group = self._find(request.client_id, request.group_name)
        self._groups.record_use(group, client_id, call.connection)
        meta = _meta(group)
        return GetPartMetaResponseM2C(
            err_code=Code.SUCCESS,
            err_msg=responses.OK,
            broker_config_id=self._catalogue.broker_checksum,
            broker_config_list=self._brokers_unless(request.broker_config_id, over_tls=call.connection.is_tls),
            topic_meta_info_id=meta.meta_id,
            topic_meta_info_list=() if request.topic_meta_info_id == meta.meta_id else meta.infos,
        )

    # --- inside -------------------------------------------------------------------------------------------------

    def _respond(self, group: Group, client_id: str, call: Call, request: HeartRequestC2MV2, *, must: bool) -> bool:
        if client_id not in group.members:
            call.reply(encode(refused_heartbeat(Code.HB_NO_NODE, f"consumer {client_id} is no longer in its group")))
            return True
        reported = request.sub_rep_info or ClientSubRepInfo(broker_config_id=UNDEFINED, topic_meta_info_id=UNDEFINED)
        meta = _meta(group)
        brokers = self._brokers_unless(reported.broker_config_id, over_tls=call.connection.is_tls)
        ops_task = self._ops_task(group, request.ops_task_info)
        is_new = reported.topic_meta_info_id != meta.meta_id
        rules = self._flow.ids(group.name)
        is_sent = rules == group.sent_rules.get(client_id) and ops_task.csm_frm_max_offset_ctrl_id is None
        if not must and not (is_new or brokers) and is_sent:
            return False
        group.sent_rules[client_id] = rules
        # One of ours learns of changes this way; all others request them (method 22), unless they have not for long.
        with_meta = request.max_wait_ms is not None or self._is_stale(group, client_id, reported)
        call.reply(
            encode(
                HeartResponseM2CV2(
                    err_code=Code.SUCCESS,
                    err_msg=responses.OK,
                    broker_config_id=self._catalogue.broker_checksum,
                    broker_config_list=brokers,
                    topic_meta_info_id=meta.meta_id if with_meta else None,
                    topic_meta_info_list=meta.infos if with_meta and is_new else (),
                    ops_task_info=ops_task,
                    authorized_info=consumer_tokens(self._tokens, client_id, call.connection),
                )
            )
        )
        return True

    def _is_stale(self, group: Group, client_id: str, reported: ClientSubRepInfo) -> bool:
        """True if a consumer that has partitions has not renewed its metadata of them for long."""
        assigned_ms = reported.lst_assigned_time
        if assigned_ms is None or assigned_ms < 0 or not group.holds(client_id):
            return False
        return self._clock.wall_ms() - assigned_ms > META_FORCE_UPDATE_S * 1000

    def _brokers_unless(self, known_id: int, *, over_tls: bool) -> tuple[str, ...]:
        """Return the list of Brokers, unless the consumer has the current one."""
        if known_id == self._catalogue.broker_checksum:
            return ()
        return responses.broker_infos(self._catalogue.brokers.values(), over_tls=over_tls)

    def _ops_task(self, group: Group, reported: OpsTaskInfo | None) -> OpsTaskInfo:
        """Return the operators' requests to the group; always present, even when empty."""
        known_id = None if reported is None else reported.csm_frm_max_offset_ctrl_id
        return OpsTaskInfo(
            csm_frm_max_offset_ctrl_id=group.from_max_id if group.from_max_id != known_id else None,
            # Unchanged fields are left out.
            **{name: value for name, value in self._flow.ops_task(group.name, reported).items() if value != UNCHANGED},
        )


def _meta(group: Group) -> PartitionMetadata:
    assert group.meta is not None, "a client-balanced group has metadata from its first member on"
    return group.meta


def _check_node(client_id: str, source_count: int, node_id: int) -> None:
    if source_count > 0 and not 0 <= node_id < source_count:
        raise Refused(
            Code.BAD_REQUEST,
            f"{client_id} says it is node {node_id} of {source_count}; nodes count from 0 to {source_count - 1}",
        )


def _reported(info: ClientSubRepInfo | None) -> frozenset[Partition] | None:
    """Return the partitions that a consumer reports to hold; None if it reports none at all. Raises FormatError."""
    if info is None or not info.report_sub_info:
        return None
    return part_sub_partitions(info.part_sub_info)


def refused_register(code: int, text: str) -> RegisterResponseM2CV2:
    """Return a registration's response with a code other than 200."""
    return RegisterResponseM2CV2(err_code=code, err_msg=text)


def refused_heartbeat(code: int, text: str) -> HeartResponseM2CV2:
    """Return a heartbeat's response with a code other than 200."""
    return HeartResponseM2CV2(err_code=code, err_msg=text)


def refused_part_meta(code: int, text: str) -> GetPartMetaResponseM2C:
    """Return the response to method 22 with a code other than 200."""
    return GetPartMetaResponseM2C(err_code=code, err_msg=text)
