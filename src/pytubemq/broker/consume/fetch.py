"""GetMessage and CommitOffset: reading for a registered consumer, and its confirms.

The invariants: only durable messages are read; a fetch's messages are recorded before they are sent, and confirmed
only by the consumer (or because the filter skipped them); a refused confirm is undone, so that its messages are sent
again; a waiting fetch belongs to the registration that sent it and never acts for a later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.broker import request_checks, tracing
from pytubemq.broker.consume.fetch_turns import FetchTurns
from pytubemq.broker.consume.log_reads import ReadLimits, expected_size, read
from pytubemq.broker.members.cursor import NOT_GIVEN, whole
from pytubemq.broker.members.flow_control import FEW_LEFT_MESSAGES, Meter
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.core.flow import rule_clock
from pytubemq.core.refusal import Refusal, Refused
from pytubemq.core.request_fields import check_client_id, check_group_name
from pytubemq.errors import Code, NotFoundError
from pytubemq.model.offset import to_offset
from pytubemq.observe.trace_events import GROUP, MESSAGE
from pytubemq.wire.batch.stored import encode_get_message_response
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
)
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    from pytubemq.broker.members.consumer_registry import Registration
    from pytubemq.broker.state import BrokerState
    from pytubemq.net.server.call import Call
    from pytubemq.storage.log.selection import Slice

_AT_END = Refusal(Code.NOT_FOUND, "the consumer has read all messages of the partition")
_NO_LIMIT = 0
_AT_END_LIMIT = -1
"""The value of `minLimitTime` as the original fills it; clients read it with 452 only."""


@dataclass(slots=True)
class _Fetch:
    """A GetMessage under way."""

    call: Call
    registration: Registration
    manual: bool
    escapes: bool
    """True if the consumer applies a rule of its group itself; then the cluster's do not apply to it."""
    limits: ReadLimits


class FetchHandlers:
    """The handlers of methods 17 and 18."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    # --- GetMessage -----------------------------------------------------------------------------------------

    def get(self, call: Call) -> None:
        """Serve GetMessage: respond with the consumer's next messages; the request may wait until there are some."""
        request = decode(GetMessageRequestC2B, call.request.body)
        state = self._state
        now_s = state.clock.now_s()
        try:
            # Checked in the original's order, so that a request with several faults gets the same code.
            state.serving.check_read()
            consumer_id = check_client_id(request.client_id)
            group = check_group_name(request.group_name)
            self._check_member(call, request, consumer_id, group)
            served = request_checks.topic(request.topic_name, state.topics)
            key = RegistrationKey(group, served.config.name, request.partition_id)
            user = state.access.user_of(call.connection, consumer_id, group)
            registration = self._find_registration(key, consumer_id, user, now_s=now_s)
            # A position that somebody fetches from is not one of those that may make room for others.
            if not registration.is_used:
                state.positions.spare.record_use(key)
            # A fetch keeps the registration alive whatever comes of it, as in the original.
            state.registry.renew(registration, connection=id(call.connection), now_s=now_s)
            if registration.is_moved_away:
                raise Refused(*_moved_refusal(registration))
            request_checks.open_for_reading(served)
        except Refused as refused:
            self._refuse(call, refused.refusal)
            return
        manual = bool(request.manual_commit_offset)
        # The original's automatic confirm: asking for more says that what came before was handled.
        if not manual and request.last_pack_consumed and registration.cursor.commit(consumed=True):
            # Not waited for, or each fetch would cost a flush; after a crash these messages come again.
            state.positions.save(key, registration.cursor.confirmed)
        limits = ReadLimits.of(
            call,
            now_s=now_s,
            max_bytes=request.max_bytes,
            max_messages=request.max_messages,
            max_wait_ms=request.max_wait_ms,
        )
        self._attempt(_Fetch(call, registration, manual, bool(request.esc_flow_ctrl), limits))

    def _find_registration(
        self, key: RegistrationKey, consumer_id: str, user: str | None, *, now_s: float
    ) -> Registration:
        registration = self._state.registry.get(key, now_s=now_s)
        if registration is None:
            # 411 makes a client register again; with 412 it knows that somebody else has the partition.
            raise Refused(Code.HB_NO_NODE, f"{consumer_id} is not registered for {key}; register first")
        if not registration.is_of(consumer_id, user):
            raise Refused(
                Code.DUPLICATE_PARTITION, f"{key} is registered by {registration.consumer_id}, not by {consumer_id}"
            )
        return registration

    def _attempt(self, fetch: _Fetch) -> None:
        """Read when the connection's turn comes, or let the fetch wait if there is nothing to read and it may."""
        key = fetch.registration.key
        extent = self._state.store.extent(key.topic, key.partition_id)
        offset = fetch.registration.cursor.request(manual=fetch.manual)
        # At the end, no turn is needed: nothing is read and nothing of any size will be sent.
        if offset == extent.max_offset:
            self._wait_or_end(fetch)
        else:
            size = expected_size(extent, offset, fetch.limits.max_bytes)
            FetchTurns.of(fetch.call.connection).run(lambda most_bytes: self._read(fetch, most_bytes), size)

    def _read(self, fetch: _Fetch, most_bytes: int) -> None:
        state, registration = self._state, fetch.registration
        cursor, key = registration.cursor, registration.key
        turns = FetchTurns.of(fetch.call.connection)
        if not self._still_holds(fetch):
            turns.finish()
            return
        min_offset, max_offset = state.store.ends(key.topic, key.partition_id)
        # The cursor may have some to report from fetches before; the Broker counts what is new.
        known = cursor.expired
        # An offset that retention has left outside moves to the nearest end, and that is kept like a confirm.
        if cursor.align(min_offset=min_offset, max_offset=max_offset, manual=fetch.manual):
            state.positions.save(key, cursor.confirmed)
        if cursor.expired > known:
            state.expired.record(key, cursor.expired - known, now_s=state.clock.now_s())
        offset = cursor.request(manual=fetch.manual)
        # Asked again in its turn: while it waited the cursor may have been moved to the end.
        if offset >= max_offset:
            self._wait_or_end(fetch)
            turns.finish()
            return
        max_bytes = min(fetch.limits.max_bytes, most_bytes)
        if state.flow.limits and not fetch.escapes:
            meter = registration.meter = registration.meter or Meter()
            if self._too_fast(fetch, meter):
                turns.finish()
                return
            max_bytes = meter.most_bytes(max_bytes)

        def finish_read(result: Slice | Refusal) -> None:
            try:
                # The disk was read without a lock: a reset, a confirm or a new registration may have moved the cursor
                # since.
                here = registration.cursor is cursor and cursor.request(manual=fetch.manual) == offset
                if here and not self._overtaken(key, offset, result):
                    self._deliver(fetch, max_offset, result)
                else:  # moved or confirmed while the disk was read: these are no longer the next messages
                    self._attempt(fetch)
            finally:
                turns.finish()

        limits = fetch.limits.within(max_bytes)
        # What was sent already may come again because its consumer could not read it: one damaged record in a response
        # spoils all of it.
        check = offset < cursor.handed_out
        read(state, key.topic, key.partition_id, offset, limits, finish_read, codes=registration.codes, check=check)

    def _overtaken(self, key: RegistrationKey, offset: int, result: Slice | Refusal) -> bool:
        """True if retention removed the offset during the read: then the cursor is advanced as for any other fetch."""
        if not isinstance(result, Refusal) or result.code is not Code.MOVED:
            return False
        try:
            return offset < self._state.store.ends(key.topic, key.partition_id)[0]
        except NotFoundError:  # the topic was removed meanwhile: the refusal stays
            return False

    def _too_fast(self, fetch: _Fetch, meter: Meter) -> bool:
        """Refuse the fetch if its consumer has used up its share by the cluster's rules; return True if so."""
        state, key = self._state, fetch.registration.key
        pause_ms = meter.pause_ms(
            state.flow.rules,
            # In bytes, by which the rules count how far a consumer is behind.
            end_position=state.store.extent(key.topic, key.partition_id).max_position,
            now_s=state.clock.now_s(),
            hhmm=rule_clock(state.clock.wall_ms() / 1000),
        )
        if pause_ms is None:
            return False
        state.flow.refusals += 1
        refusal = Refusal(
            Code.SERVER_CONSUME_SPEED_LIMIT,
            f"the cluster's flow control pauses {key}; fetch again in {pause_ms} ms",
        )
        self._refuse(fetch.call, refusal, min_limit_time=pause_ms)
        return True

    def _wait_or_end(self, fetch: _Fetch) -> None:
        """Let the fetch wait for the rest of its wait, or respond that there is nothing."""
        state, key = self._state, fetch.registration.key
        held = state.serving.started and state.waiters.hold(
            (key.topic, key.partition_id),
            connection=id(fetch.call.connection),
            wait_s=fetch.limits.wait_until_s - state.clock.now_s(),
            resume=lambda timed_out: self._resume(fetch, timed_out),
        )
        if not held:
            self._at_end(fetch)

    def _at_end(self, fetch: _Fetch) -> None:
        """Respond that there is nothing, with the group's position: its filter may have skipped the rest."""
        # Who knows no extensions gets the response as the original has it.
        if Capability.FETCH_LIMITS not in fetch.call.connection.capabilities:
            self._refuse(fetch.call, _AT_END, min_limit_time=_AT_END_LIMIT)
            return
        key = fetch.registration.key
        max_offset = self._state.store.ends(key.topic, key.partition_id)[1]
        cursor = fetch.registration.cursor
        self._refuse(
            fetch.call,
            _AT_END,
            min_limit_time=_AT_END_LIMIT,
            max_offset=max_offset,
            next_offset=cursor.confirmed,
            expired_messages=cursor.take_expired(),
        )

    def _resume(self, fetch: _Fetch, timed_out: bool) -> None:
        if timed_out:
            self._at_end(fetch)
        elif self._still_holds(fetch):
            consumer_id, key = fetch.registration.consumer_id, fetch.registration.key
            try:  # meanwhile the Master may have stopped reading, closed the topic, or ended the member's rights
                self._state.serving.check_read()
                self._state.access.check_member(fetch.call.connection, consumer_id, key.group, key.topic)
                request_checks.open_for_reading(request_checks.topic(fetch.registration.key.topic, self._state.topics))
            except Refused as refused:
                self._refuse(fetch.call, refused.refusal)
            else:
                self._attempt(fetch)

    def _still_holds(self, fetch: _Fetch) -> bool:
        """True if the registration that sent the fetch is still valid; if not, the fetch is refused or dropped."""
        if fetch.call.connection.closed or fetch.call.expired:
            fetch.call.drop()  # no progress may be recorded for a response that nobody will get
            return False
        now_s = self._state.clock.now_s()
        # The very same one: a consumer that has registered anew may have begun elsewhere.
        if self._state.registry.get(fetch.registration.key, now_s=now_s) is fetch.registration:
            if not fetch.registration.is_moved_away:
                return True
            self._refuse(fetch.call, _moved_refusal(fetch.registration))
            return False
        self._refuse(fetch.call, Refusal(Code.HB_NO_NODE, f"the registration for {fetch.registration.key} has ended"))
        return False

    def _deliver(self, fetch: _Fetch, max_offset: int, result: Slice | Refusal) -> None:
        if not self._still_holds(fetch):
            return
        if isinstance(result, Refusal):
            self._refuse(fetch.call, result)
            return
        state, registration = self._state, fetch.registration
        if result.skipped:
            state.skipped(registration.key, result)
        # Recorded before the response leaves, so that a confirm that comes at once finds what it confirms.
        if registration.cursor.book(result.next_offset, found=result.count > 0, manual=fetch.manual):
            state.positions.save(registration.key, registration.cursor.confirmed)
        if registration.meter is not None and state.flow.limits:
            end_position = state.store.extent(registration.key.topic, registration.key.partition_id).max_position
            # Payload and not bytes on the wire, as the rules count; see `core.flow`.
            registration.meter.record_read(result.payload_bytes, read_to=end_position - result.remaining_bytes)
        # The filter has passed over all of it: a response without messages would only lead to the next fetch.
        if not result.count and self._hold_on(fetch, result):
            return
        capable = Capability.FETCH_LIMITS in fetch.call.connection.capabilities
        head = GetMessageResponseB2C(
            success=True,
            err_code=Code.SUCCESS,
            err_msg="OK!",
            # Where the read began, as in the original; clients of ours go by `next_offset`.
            curr_offset=result.start_offset,
            min_limit_time=_NO_LIMIT,
            esc_flow_ctrl=False,
            curr_data_dlt=result.remaining_bytes,
            require_slow=_few_left(registration, max_offset, result),
            max_offset=max_offset,
            next_offset=result.next_offset if capable else None,
            expired_messages=registration.cursor.take_expired() if capable else None,
        )
        fetch.call.reply(encode_get_message_response(head, result.parts))
        counters = state.counters
        counters.served(registration.key.topic, result.count, result.payload_bytes)
        if MESSAGE.on and result.count:
            tracing.record_fetch(fetch.call, registration.key, registration.consumer_id, result)
        counters.fetch_s.add(state.clock.now_s() - fetch.call.received_s)

    def _hold_on(self, fetch: _Fetch, result: Slice) -> bool:
        """Let the fetch wait again if there is time, as the filter skipped all messages; True if so."""
        state, key = self._state, fetch.registration.key
        if state.clock.now_s() >= fetch.limits.wait_until_s:
            return False
        # Waiting is for the end of the partition only; before it there may be messages that match.
        if result.next_offset < state.store.ends(key.topic, key.partition_id)[1]:
            return False  # a bounded scan ended early: the caller learns of the progress and fetches again
        self._attempt(fetch)
        return True

    def _refuse(
        self,
        call: Call,
        refusal: Refusal,
        *,
        min_limit_time: int = _NO_LIMIT,
        max_offset: int | None = None,
        next_offset: int | None = None,
        expired_messages: int | None = None,
    ) -> None:
        self._state.counters.record_refused_fetch(refusal.code)
        call.reply(
            encode(
                GetMessageResponseB2C(
                    success=False,
                    err_code=refusal.code,
                    err_msg=refusal.text,
                    curr_offset=NOT_GIVEN,
                    min_limit_time=min_limit_time,
                    esc_flow_ctrl=False,
                    # As the original fills it where nothing was read.
                    curr_data_dlt=-1,
                    max_offset=max_offset,
                    next_offset=next_offset,
                    expired_messages=expired_messages,
                )
            )
        )

    def _check_member(
        self, call: Call, request: GetMessageRequestC2B | CommitOffsetRequestC2B, consumer_id: str, group: str
    ) -> None:
        """Refuse a consumer that has not shown who it is over this connection."""
        state = self._state
        now_s = state.clock.now_s()
        topic = request.topic_name.strip()
        try:
            state.access.check_member(call.connection, consumer_id, group, topic)
        except Refused as refused:
            registration = state.registry.get(RegistrationKey(group, topic, request.partition_id), now_s=now_s)
            is_its_own = registration is not None and registration.consumer_id == consumer_id
            if refused.refusal.code != Code.CERTIFICATE_FAILURE or not is_its_own or _registers_again(call):
                raise
            # After 415 a Java consumer gives the partition up, although its next heartbeat shows its token again.
            raise Refused(
                Code.SERVICE_UNAVAILABLE,
                f"{consumer_id} has not sent a heartbeat over this connection yet, which shows who it is; try again",
            ) from refused

    # --- CommitOffset ---------------------------------------------------------------------------------------

    def commit(self, call: Call) -> None:
        """Serve CommitOffset: confirm the last fetch, or all below a given offset; respond when that is durable."""
        request = decode(CommitOffsetRequestC2B, call.request.body)
        state = self._state
        try:
            state.serving.check_started()
            consumer_id = check_client_id(request.client_id)
            group = check_group_name(request.group_name)
            self._check_member(call, request, consumer_id, group)
            served = request_checks.topic(request.topic_name, state.topics)
            # As in the original: a topic that is closed in any way may be read and takes no confirms.
            request_checks.open_for_writing(served)
            request_checks.partition(served, request.partition_id)
            key = RegistrationKey(group, served.config.name, request.partition_id)
            registration = state.registry.get(key, now_s=state.clock.now_s())
            # 401 for both, where a fetch gets 411 or 412: what the original responds to a commit.
            if registration is None:
                raise Refused(Code.UNAUTHORIZED, f"no consumer is registered for {key}")
            if not registration.is_of(consumer_id, state.access.user_of(call.connection, consumer_id, group)):
                raise Refused(
                    Code.UNAUTHORIZED, f"{key} is registered by {registration.consumer_id}, not by {consumer_id}"
                )
            if registration.is_moved_away:
                raise Refused(*_moved_refusal(registration))
            max_offset = state.store.ends(key.topic, key.partition_id)[1]
            self._confirm(registration, request, max_offset)
        except Refused as refused:
            _respond_to_commit(call, refused.refusal)
            return
        cursor = registration.cursor
        confirmed = cursor.begin_confirm()

        def finish_commit(refusal: Refusal | None) -> None:
            # Before the next fetch: a client that knows of the refusal understands why messages are repeated.
            _respond_to_commit(call, refusal, confirmed=confirmed, max_offset=max_offset)
            state.counters.confirm_s.add(state.clock.now_s() - call.received_s)
            if refusal is not None:
                # As if it had not been asked for: what is not durable must be sent again, also to this consumer.
                cursor.take_back(confirmed, to=state.positions.current(key))
                state.waiters.wake([(key.topic, key.partition_id)])  # a waiting fetch has messages again
                return
            passed = cursor.finish_confirm(confirmed)
            # The next holder may have confirmed more meanwhile; it has skipped the same messages on its own.
            if (
                passed is not None
                and registration.cursor is cursor
                and state.registry.get(key, now_s=state.clock.now_s()) is registration
            ):
                # What the filter passed over while the confirm was written follows it now; nobody waits for that.
                state.positions.save(key, passed)
            if MESSAGE.on or GROUP.on:
                tracing.record_confirm(key, consumer_id, confirmed)

        state.positions.commit(key, confirmed, finish_commit)

    def _confirm(self, registration: Registration, request: CommitOffsetRequestC2B, max_offset: int) -> None:
        if request.up_to is None:
            # Absent means consumed, as in the original.
            registration.cursor.commit(consumed=request.last_pack_consumed is not False)
            return
        if request.up_to < 0 or whole(request.up_to) > max_offset:
            raise Refused(
                Code.BAD_REQUEST, f"offset {request.up_to} cannot be confirmed, {registration.key} ends at {max_offset}"
            )
        registration.cursor.commit_up_to(request.up_to)


def _registers_again(call: Call) -> bool:
    """True if a call is from one of our clients, which register again when they are refused."""
    return Capability.ACCESS in call.connection.capabilities


def _moved_refusal(registration: Registration) -> Refusal:
    group, confirmed = registration.key.group, registration.cursor.confirmed
    return Refusal(Code.MOVED, f"group {group} was moved to offset {confirmed} of {registration.key}; register again")


def _few_left(registration: Registration, max_offset: int, result: Slice) -> bool:
    """True if a consumer with a filter should wait until there are more messages to scan."""
    return registration.codes is not None and max_offset - result.next_offset < to_offset(FEW_LEFT_MESSAGES)


def _respond_to_commit(
    call: Call, refusal: Refusal | None, *, confirmed: int = NOT_GIVEN, max_offset: int | None = None
) -> None:
    code, text = refusal or (Code.SUCCESS, "OK!")
    call.reply(
        encode(
            CommitOffsetResponseB2C(
                success=refusal is None,
                err_code=code,
                err_msg=text,
                curr_offset=confirmed if refusal is None else NOT_GIVEN,
                max_offset=max_offset if refusal is None else None,
            )
        )
    )
