"""Requests of server-balanced consumers to the Master, and their responses.

The invariant: an event is sent in a response only, and counts as done only when the consumer sends its id back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytubemq.core.balance.consistency import GroupKind, Terms
from pytubemq.core.balance.facts import Event, Reported
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
from pytubemq.model.ids import DEFAULT_BROKER_PORT, Address, BrokerInfo, Partition
from pytubemq.wire.protocol.messages.master import (
    CloseRequestC2M,
    CloseResponseM2C,
    EventProto,
    HeartRequestC2M,
    HeartResponseM2C,
    RegisterRequestC2M,
    RegisterResponseM2C,
)
from pytubemq.wire.serialization.message_bytes import encode
from pytubemq.wire.text.partition_strings import format_subscribed
from pytubemq.wire.text.read_partitions import required_offsets, subscribed_partitions

if TYPE_CHECKING:
    from pytubemq.master.groups.group import Group
    from pytubemq.net.server.call import Call


EVENT_FAILED = -2
"""The status of an event that its consumer could not carry out."""


class Consumers(ConsumerMethods):
    """The three methods of server-balanced consumers."""

    client_balanced = False
    heartbeats_of_others = "method 21, not 5"

    def register(self, call: Call, request: RegisterRequestC2M) -> RegisterResponseM2C:
        """Serve method 4. The checks and their order are the original's."""
        client_id = check_client_id(request.client_id, in_lists=True)
        host = check_host_name(request.host_name)
        name = check_group_name(request.group_name, in_lists=True)
        check_other_text(
            call.size_bytes,
            request.topic_list,
            request.topic_condition,
            request.subscribe_info,
            (request.required_partition or "",),
            client=client_id,
        )
        terms = self._terms(client_id, request)
        check_partitions(self._groups.brokers, client_id, terms.topics, len(request.subscribe_info))
        check_partitions(self._groups.brokers, client_id, terms.topics, (request.required_partition or "").count(","))
        claims = _claims(client_id, terms, request)
        if terms.bound:
            self._groups.check_rate(name, terms.topics, terms.total_count)
        self._authorization.check(name, terms.topics, terms.conditions)
        origin = origin_of(call.peer, call.connection)
        self._groups.check_room(name, client_id, call.connection, call.size_bytes, origin)
        holds = subscribed_partitions(request.subscribe_info)
        mismatch = self._groups.join(
            name,
            client_id,
            terms,
            MemberInfo(host, call.peer, self._clock.wall_ms(), over_tls=call.connection.is_tls),
            holds=holds,
            allocated=request.not_allocated is False,
            claims=claims,
            size_bytes=call.size_bytes,
            origin=origin,
        )
        group = self._admit(name, client_id, call, mismatch)
        return RegisterResponseM2C(
            success=True,
            err_code=Code.SUCCESS,
            err_msg=responses.OK,
            not_allocated=group.not_allocated,
            authorized_info=consumer_tokens(self._tokens, client_id, call.connection),
            **self._flow.consumer_fields(group.name, request.def_flow_check_id, request.group_flow_check_id),
        )

    def heartbeat(self, call: Call, request: HeartRequestC2M) -> None:
        """Serve method 5: record the last event's result and the held partitions; respond with the next event."""
        client_id, group = self._find(request.client_id, request.group_name)
        self._groups.record_use(group, client_id, call.connection)
        check_partitions(self._groups.brokers, client_id, group.terms.topics, len(request.subscribe_info))
        held = subscribed_partitions(request.subscribe_info) if request.report_subscribe_info else None
        result = request.event if request.event is not None and (request.event.rebalance_id or 0) > 0 else None
        if held is not None:  # otherwise the last report still counts
            try:
                self._groups.record_report(group.name, client_id, call.size_bytes)
            except Refused:
                # What it did of the last event counts all the same: only its report is too long to be remembered.
                self._record_result(group, client_id, result, None)
                raise
        if result is not None:
            self._record_result(group, client_id, result, held)
        elif held is not None:
            self._groups.apply(group, Reported(client_id, held))
        wait_s = self._allowed_wait_s(call, request.max_wait_ms)
        self._groups.hold(
            group, client_id, wait_s, lambda must: self._respond(group, client_id, call, request, must=must)
        )

    def _record_result(
        self, group: Group, client_id: str, result: EventProto | None, held: frozenset[Partition] | None
    ) -> None:
        if result is not None:
            failed = result.status == EVENT_FAILED
            self._groups.record_result(group, client_id, result.rebalance_id or 0, failed=failed, holds=held)

    def close(self, call: Call, request: CloseRequestC2M) -> CloseResponseM2C:
        """Serve method 6; an unknown consumer is closed all the same."""
        client_id = check_client_id(request.client_id, in_lists=True)
        self._groups.leave(check_group_name(request.group_name, in_lists=True), client_id)
        return CloseResponseM2C(success=True, err_code=Code.SUCCESS, err_msg=responses.OK)

    def _respond(self, group: Group, client_id: str, call: Call, request: HeartRequestC2M, *, must: bool) -> bool:
        if client_id not in group.members:
            call.reply(encode(refused_heartbeat(Code.HB_NO_NODE, f"consumer {client_id} is no longer in its group")))
            return True
        event = self._groups.next_event(group, client_id)
        rules = self._flow.ids(group.name)
        if event is None and rules == group.sent_rules.get(client_id) and not must:
            return False
        group.sent_rules[client_id] = rules
        response = HeartResponseM2C(
            success=True,
            err_code=Code.SUCCESS,
            err_msg=responses.OK,
            event=None if event is None else self._event(group, client_id, event, over_tls=call.connection.is_tls),
            not_allocated=group.not_allocated,
            authorized_info=consumer_tokens(self._tokens, client_id, call.connection),
            **self._flow.consumer_fields(group.name, request.def_flow_check_id, request.group_flow_check_id),
        )
        call.reply(encode(response))
        return True

    def _event(self, group: Group, client_id: str, event: Event, *, over_tls: bool) -> EventProto:
        return EventProto(
            rebalance_id=event.rebalance_id,
            op_type=int(event.op),
            subscribe_info=format_subscribed(
                client_id, group.name, event.partitions, partial(self._broker, over_tls=over_tls)
            ),
        )

    def _broker(self, broker_id: int, *, over_tls: bool) -> BrokerInfo:
        """Return a Broker's address, or one that cannot work for a Broker that only a consumer named: it is revoked."""
        record = self._catalogue.brokers.get(broker_id)
        if record is None:
            return BrokerInfo(broker_id, Address("0.0.0.0", DEFAULT_BROKER_PORT))
        return responses.reached_at(record, over_tls=over_tls)

    def _terms(self, client_id: str, request: RegisterRequestC2M) -> Terms:
        topics, conditions = check_subscription(
            self._groups.brokers, client_id, request.topic_list, request.topic_condition
        )
        if not request.require_bound:
            return Terms(topics, conditions)
        return self._bound_terms(client_id, request, Terms(topics, conditions, GroupKind.BOUND))

    def _bound_terms(self, client_id: str, request: RegisterRequestC2M, terms: Terms) -> Terms:
        session_key = (request.session_key or "").strip()
        if not session_key:
            raise Refused(Code.BAD_REQUEST, f"{client_id} is bound but gives no sessionKey")
        total_count = -1 if request.total_count is None else request.total_count
        if total_count <= 0:
            raise Refused(Code.BAD_REQUEST, f"{client_id} is bound and declares {total_count} consumers")
        select_big = request.select_big is not False
        return Terms(
            terms.topics,
            terms.conditions,
            GroupKind.BOUND,
            session_key=session_key,
            select_big=select_big,
            total_count=total_count,
        )


def _claims(client_id: str, terms: Terms, request: RegisterRequestC2M) -> dict[Partition, int]:
    """Return the offsets at which a bound consumer wants to begin, by partition. Raises FormatError."""
    if not terms.bound:
        return {}
    claims = required_offsets(request.required_partition or "")
    others = {partition.topic for partition in claims} - terms.topics
    if others:
        partition = next(partition for partition in claims if partition.topic in others)
        raise Refused(Code.BAD_REQUEST, f"{client_id} wants {partition}, a topic that it does not subscribe to")
    return claims


def refused_heartbeat(code: int, text: str) -> HeartResponseM2C:
    """Return a heartbeat's response with a code other than 200."""
    return HeartResponseM2C(success=False, err_code=code, err_msg=text)
