"""Registration, heartbeat and unregistration of consumers.

The invariants: a registration is answered only when its starting position is durable (or cannot be now, which is
logged), so that the group begins there again after a crash; messages that the previous consumer got and did not
confirm are sent again; while a confirm or a reset is in flight no consumer begins and none leaves, so that neither
undoes it nor keeps a refused one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.broker import request_checks
from pytubemq.broker.members.caller_access import Action, consume_from, join_group
from pytubemq.broker.members.consumer_registry import RegistryFullError
from pytubemq.broker.members.cursor import NOT_GIVEN, Cursor, start_offset
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.core.refusal import Refused
from pytubemq.core.request_fields import check_client_id, check_group_name
from pytubemq.errors import Code, FormatError
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import MAX_HEARTBEAT_PARTITIONS
from pytubemq.net.client.probe import PROBE_GROUP
from pytubemq.observe.trace_events import GROUP
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import (
    HeartBeatRequestC2B,
    HeartBeatResponseB2C,
    RegisterRequestC2B,
    RegisterResponseB2C,
)
from pytubemq.wire.serialization.message_bytes import decode, encode
from pytubemq.wire.text.partition_strings import FailureInfo, format_failure_info, parse_partition_info

if TYPE_CHECKING:
    from pytubemq.broker.state import BrokerState
    from pytubemq.core.refusal import Refusal
    from pytubemq.net.server.call import Call

REGISTER: Final = 31
UNREGISTER: Final = 32
CONSUMED: Final = 0
"""The `readStatus` of an unregistration whose last fetch was consumed."""


class RegisterHandlers:
    """The handlers of methods 15 and 16."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def register(self, call: Call) -> None:
        """Serve RegisterRequestC2B: assign a partition to a consumer, or take it back."""
        self._serve(call, decode(RegisterRequestC2B, call.request.body))

    def _serve(self, call: Call, request: RegisterRequestC2B) -> None:
        state = self._state
        try:
            state.serving.check_started()
            consumer_id, group = request.client_id.strip(), request.group_name.strip()
            self._admit(call, request, consumer_id, consume_from(request.topic_name.strip()), join_group(group))
            check_client_id(consumer_id, in_lists=True)
            check_group_name(group, in_lists=True)
            served = request_checks.topic(request.topic_name, state.topics)
            codes = request_checks.filter_codes(request.filter_cond_str)
            key = RegistrationKey(group, served.config.name, request.partition_id)
            # The confirm or reset under way decides where the next consumer begins.
            if state.positions.when_decided(key, lambda: self._resume(call, request)):
                return
            if request.op_type == REGISTER:
                # 500 as the original has it: its clients retry, which is right while a topic grows
                request_checks.partition(served, request.partition_id, code=Code.INTERNAL_SERVER_ERROR)
                self._register(call, request, key, consumer_id, codes)
            elif request.op_type == UNREGISTER:
                self._unregister(call, request, key, consumer_id)
            else:
                raise Refused(
                    Code.BAD_REQUEST, f"opType {request.op_type} is neither {REGISTER} (register) nor {UNREGISTER}"
                )
        except Refused as refused:
            _respond(call, refused.refusal)

    def _admit(
        self, call: Call, request: RegisterRequestC2B | HeartBeatRequestC2B, consumer_id: str, *actions: Action
    ) -> None:
        """Refuse a consumer that is not admitted."""
        clock = self._state.clock
        self._state.access.check(
            call.connection,
            request.auth_info,
            consumer_id,
            actions,
            now_s=clock.now_s(),
            wall_s=clock.wall_ms() / 1000,
        )

    def _lacks_topic(self, call: Call, request: HeartBeatRequestC2B, consumer_id: str, topic: str) -> bool:
        """True if a member may no longer read a topic."""
        if not self._state.access.is_enforced:
            return False
        try:
            self._admit(call, request, consumer_id, consume_from(topic))
        except Refused:
            return True
        return False

    def _resume(self, call: Call, request: RegisterRequestC2B) -> None:
        """Serve a request that waited for a confirm; a registration is dropped if its caller is gone."""
        # Who leaves need not wait for the response; the partition must get free all the same.
        if request.op_type != UNREGISTER and (call.connection.closed or call.expired):
            call.drop()
            return
        try:
            self._serve(call, request)
        except Exception as error:
            # This is a callback, with no dispatcher above it that would respond to the call.
            call.crash(error)

    def _register(
        self,
        call: Call,
        request: RegisterRequestC2B,
        key: RegistrationKey,
        consumer_id: str,
        codes: frozenset[int] | None,
    ) -> None:
        state = self._state
        now_s = state.clock.now_s()
        # An expired one is not found, so its consumer that is gone keeps nobody out.
        holder = state.registry.get(key, now_s=now_s)
        # A consumer that registers again, as after a broken connection, takes its own registration over.
        user = state.access.user_of(call.connection, consumer_id, key.group)
        if holder is not None and not holder.is_of(consumer_id, user):
            raise Refused(
                Code.PARTITION_OCCUPIED,
                f"partition {key.partition_id} of {key.topic} is registered by {holder.consumer_id} of group "
                f"{key.group}",
            )
        if not state.positions.has_room(key):
            # 400, not 503: positions that consumers have used stay, so waiting is of no use and a client must not
            raise Refused(
                Code.BAD_REQUEST,
                f"group positions are full: this Broker keeps {state.positions.most} of them and takes no more: "
                f"{key} is new; use a group that has a position",
            )
        min_offset, max_offset = state.store.ends(key.topic, key.partition_id)
        offset = start_offset(
            stored=state.positions.start_position(key),
            read_status=request.read_status,
            asked=NOT_GIVEN if request.curr_offset is None else request.curr_offset,
            min_offset=min_offset,
            max_offset=max_offset,
        )
        has_notices = Capability.RESET_NOTICES in call.connection.capabilities
        epoch = max(state.reset_epochs.get(key), 0 if holder is None else holder.reset_epoch)
        try:
            registration = state.registry.put(
                key,
                consumer_id,
                # A consumer that is notified confirms nothing from before a move, so its confirms count from now on.
                Cursor.at(offset, moved=not has_notices and holder is not None and holder.cursor.moved),
                codes=codes,
                connection=id(call.connection),
                now_s=now_s,
                priority_id=UNDEFINED if request.qry_priority_id is None else request.qry_priority_id,
                host=call.peer.rpartition(":")[0],
            )
        except RegistryFullError:
            # 503, as clients retry then, ours and Java's: room is made when a consumer leaves or expires
            raise Refused(
                Code.SERVICE_UNAVAILABLE,
                f"registrations are full: this Broker has {len(state.registry)}, which is the limit; retry later",
            ) from None
        registration.has_reset_notices, registration.reset_epoch, registration.user = has_notices, epoch, user
        GROUP.record(
            "taken", group=key.group, topic=key.topic, partition=key.partition_id, offset=offset, consumer=consumer_id
        )
        response = RegisterResponseB2C(
            success=True,
            err_code=Code.SUCCESS,
            err_msg="OK!",
            curr_offset=offset,
            max_offset=max_offset,
            reset_epoch=epoch if has_notices and epoch else None,
        )
        # A position that cannot be written now stays in memory and is written later; reading need not wait for that.
        state.positions.begin(key, offset, lambda _: call.reply(encode(response)))

    def _unregister(self, call: Call, request: RegisterRequestC2B, key: RegistrationKey, consumer_id: str) -> None:
        state = self._state
        registration = state.registry.get(key, now_s=state.clock.now_s())
        if registration is None:
            raise Refused(Code.HB_NO_NODE, f"{consumer_id} is not registered for {key}")
        if not registration.is_of(consumer_id, state.access.user_of(call.connection, consumer_id, key.group)):
            raise Refused(
                Code.DUPLICATE_PARTITION, f"{key} is registered by {registration.consumer_id}, not by {consumer_id}"
            )
        # First, so that a fetch of it that is under way delivers nothing any more.
        state.registry.drop(registration)
        GROUP.record("given up", group=key.group, topic=key.topic, partition=key.partition_id, consumer=consumer_id)
        # The original's way of leaving: `readStatus` says whether the last fetch was handled.
        registration.cursor.commit(consumed=request.read_status == CONSUMED)
        state.positions.save(key, registration.cursor.confirmed, lambda refusal: _respond(call, refusal))

    def heartbeat(self, call: Call) -> None:
        """Serve HeartBeatRequestC2B: renew the named registrations; the response names those that could not be."""
        request = decode(HeartBeatRequestC2B, call.request.body)
        state = self._state
        failures: list[str] = []
        try:
            state.serving.check_started()
            consumer_id, group = request.client_id.strip(), request.group_name.strip()
            if group == PROBE_GROUP and not request.partition_info:
                state.access.check_probe(request.auth_info, now_s=state.clock.now_s())
            else:
                self._admit(call, request, consumer_id, join_group(group))
            check_client_id(consumer_id)
            check_group_name(group)
            if len(request.partition_info) > MAX_HEARTBEAT_PARTITIONS:
                raise Refused(
                    Code.BAD_REQUEST,
                    f"{len(request.partition_info)} partitions in one heartbeat, {MAX_HEARTBEAT_PARTITIONS} are "
                    "allowed; send several",
                )
            now_s, user = state.clock.now_s(), state.access.user_of(call.connection, consumer_id, group)
            priority_id = UNDEFINED if request.qry_priority_id is None else request.qry_priority_id
            for item in request.partition_info:
                try:
                    info = parse_partition_info(item)
                except FormatError as error:
                    # The original fails without a proper response here; this one quotes the item.
                    raise request_checks.malformed(error) from error
                key = RegistrationKey(group, info.partition.topic, info.partition.partition_id)
                registration = state.registry.get(key, now_s=now_s)
                code = Code.HB_NO_NODE if registration is None else Code.DUPLICATE_PARTITION
                if registration is not None and registration.is_of(consumer_id, user):
                    registration.user = registration.user or user
                    if self._lacks_topic(call, request, consumer_id, key.topic):
                        state.registry.drop(registration)
                        failures.append(
                            format_failure_info(FailureInfo(Code.UNAUTHORIZED, info.broker, info.partition))
                        )
                        continue
                    state.registry.record_heartbeat(registration, connection=id(call.connection), now_s=now_s)
                    # Replaced by each heartbeat, also by one without it, as in the original.
                    registration.priority_id = priority_id
                    if not registration.is_moved_away:
                        continue
                    code = Code.MOVED
                # Named one by one: the response as a whole stays a success, as in the original.
                failures.append(format_failure_info(FailureInfo(code, info.broker, info.partition)))
        except Refused as refused:
            code, text = refused.refusal
            call.reply(encode(HeartBeatResponseB2C(success=False, err_code=code, err_msg=text)))
            return
        call.reply(
            encode(
                HeartBeatResponseB2C(
                    success=True,
                    err_code=Code.SUCCESS,
                    err_msg="OK!",
                    has_part_failure=bool(failures),
                    failure_info=tuple(failures),
                    require_auth=False,
                )
            )
        )


def _respond(call: Call, refusal: Refusal | None) -> None:
    code, text = refusal or (Code.SUCCESS, "OK!")
    call.reply(encode(RegisterResponseB2C(success=refusal is None, err_code=code, err_msg=text, curr_offset=NOT_GIVEN)))
