"""READ_RANGE and PARTITION_OFFSETS: reads and lookups without a group.

The invariants: nothing here changes any group's confirmed offset or next message; only clients that may register a
consumer are served, and without a registration that is checked with every request. Offsets of many partitions are
looked up in slices, so each is as of its slice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.broker import request_checks, tracing
from pytubemq.broker.consume.fetch_turns import FetchTurns
from pytubemq.broker.consume.log_reads import ReadLimits, expected_size, read
from pytubemq.broker.members.caller_access import Identified, consume_from, describe_group, describe_topic
from pytubemq.broker.members.cursor import whole
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.core.refusal import Refusal, Refused
from pytubemq.core.request_fields import check_client_id
from pytubemq.errors import Code, NotFoundError, StorageError, TubeError
from pytubemq.model.limits import LONG_WORK_SLICE, MAX_POSITIONS_CHARS
from pytubemq.net.server.long_work import sliced
from pytubemq.observe.trace_events import MESSAGE
from pytubemq.wire.batch.stored import encode_read_range_response
from pytubemq.wire.protocol.messages.extension import (
    GroupPosition,
    PartitionEnds,
    PartitionOffsetsRequest,
    PartitionOffsetsResponse,
    ReadRangeRequestC2B,
    ReadRangeResponseB2C,
)
from pytubemq.wire.serialization.message_bytes import decode, decode_apart, encode, encode_values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytubemq.broker.append.waiters import PartitionKey
    from pytubemq.broker.state import BrokerState
    from pytubemq.net.server.call import Call
    from pytubemq.net.server.long_work import Turn
    from pytubemq.security.client_token import ClientIdentity
    from pytubemq.storage.log.selection import Slice
    from pytubemq.wire.protocol.messages.extension import TopicPartition
    from pytubemq.wire.serialization.message_bytes import Values


_POSITION_CHARS = 40
"""The size of a position in a response beside its names."""
_SCANNED = 10_000
"""Positions of the store that are checked in one turn."""


@dataclass(slots=True)
class _Range:
    """A READ_RANGE under way."""

    call: Call
    key: PartitionKey
    offset: int
    end_offset: int | None
    limits: ReadLimits
    codes: frozenset[int] | None
    """The codes of the requested message types; None for all."""
    check: bool
    reader: ClientIdentity | None
    """The identity of the reader; None for one that was not identified."""


class RangeHandlers:
    """The handlers of methods 101 and 102."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    # --- READ_RANGE -----------------------------------------------------------------------------------------

    def read_range(self, call: Call) -> None:
        """Serve ReadRange: respond with messages from an offset on."""
        request = decode(ReadRangeRequestC2B, call.request.body)
        state = self._state
        try:
            # There is no registration to rely on, so each request is checked as a whole.
            state.serving.check_read()
            client_id, action = request.client_id.strip(), consume_from(request.topic_name.strip())
            state.access.check(
                call.connection,
                request.auth_info,
                client_id,
                (action,),
                now_s=state.clock.now_s(),
                wall_s=state.clock.wall_ms() / 1000,
            )
            check_client_id(request.client_id)
            served = request_checks.topic(request.topic_name, state.topics)
            request_checks.partition(served, request.partition_id)
            request_checks.open_for_reading(served)
            if request.offset < 0 or (request.end_offset is not None and request.end_offset < request.offset):
                raise Refused(Code.BAD_REQUEST, f"offsets {request.offset} to {request.end_offset} are not a range")
            codes = request_checks.filter_codes(request.filters)
        except Refused as refused:
            code, text = refused.refusal
            call.reply(encode(ReadRangeResponseB2C(success=False, err_code=code, err_msg=text)))
            return
        limits = ReadLimits.of(
            call,
            now_s=state.clock.now_s(),
            max_bytes=request.max_bytes,
            max_messages=request.max_messages,
            max_wait_ms=request.max_wait_ms,
        )
        # As the topic is stored: the request may have blanks around the name.
        key = (served.config.name, request.partition_id)
        reader = state.access.identity_of(call.connection, client_id, action)
        self._attempt(
            _Range(call, key, whole(request.offset), request.end_offset, limits, codes, bool(request.check), reader)
        )

    def _attempt(self, wanted: _Range, *, may_wait: bool = True) -> None:
        state = self._state
        if self._removed(wanted):
            return
        extent = state.store.extent(*wanted.key)
        if wanted.offset < extent.min_offset:
            self._refuse(
                wanted,
                Refusal(Code.MOVED, f"offset {wanted.offset} is no longer kept, the first is {extent.min_offset}"),
            )
        # At the end of its range nothing is missing, so it gets an empty response and does not wait.
        elif wanted.offset >= extent.max_offset and wanted.offset != wanted.end_offset:
            if not (may_wait and self._hold(wanted)):
                self._refuse(wanted, Refusal(Code.NOT_FOUND, f"there is nothing at offset {wanted.offset} yet"))
        else:
            size = expected_size(extent, wanted.offset, wanted.limits.max_bytes)
            FetchTurns.of(wanted.call.connection).run(lambda most_bytes: self._read(wanted, most_bytes), size)

    def _read(self, wanted: _Range, most_bytes: int) -> None:
        turns = FetchTurns.of(wanted.call.connection)

        def finish_read(result: Slice | Refusal) -> None:
            try:
                self._deliver(wanted, result)
            finally:
                turns.finish()

        # It may have waited long for its turn; nobody reads the response any more.
        if wanted.call.expired:
            wanted.call.drop()
            turns.finish()
        elif self._removed(wanted):
            turns.finish()
        else:
            read(
                self._state,
                *wanted.key,
                wanted.offset,
                wanted.limits.within(most_bytes),
                finish_read,
                end_offset=wanted.end_offset,
                codes=wanted.codes,
                check=wanted.check,
            )

    def _removed(self, wanted: _Range) -> bool:
        """Refuse a read whose topic was removed while it waited; True if so."""
        topic = wanted.key[0]
        if self._state.topics.get(topic) is not None:
            return False
        self._refuse(wanted, Refusal(Code.FORBIDDEN, f"topic {topic} is not at this Broker any more"))
        return True

    def _hold(self, wanted: _Range) -> bool:
        state = self._state
        return state.serving.started and state.waiters.hold(
            wanted.key,
            connection=id(wanted.call.connection),
            wait_s=wanted.limits.wait_until_s - state.clock.now_s(),
            resume=lambda timed_out: self._resume(wanted, timed_out),
        )

    def _resume(self, wanted: _Range, timed_out: bool) -> None:
        try:  # meanwhile its reader's rights may have ended
            self._state.access.check_again(wanted.reader, consume_from(wanted.key[0]))
        except Refused as refused:
            self._refuse(wanted, refused.refusal)
        else:
            self._attempt(wanted, may_wait=not timed_out)

    def _refuse(self, wanted: _Range, refusal: Refusal) -> None:
        """Respond with a code, and with the partition's ends where they explain it."""
        self._state.counters.record_refused_fetch(refusal.code)
        ends: tuple[int, int] | None = None
        # The reader goes on from these without another question.
        if refusal.code in (Code.MOVED, Code.NOT_FOUND):
            ends = self._state.store.ends(*wanted.key)
        wanted.call.reply(
            encode(
                ReadRangeResponseB2C(
                    success=False,
                    err_code=refusal.code,
                    err_msg=refusal.text,
                    next_offset=wanted.offset if ends else None,
                    min_offset=ends[0] if ends else None,
                    max_offset=ends[1] if ends else None,
                )
            )
        )

    def _deliver(self, wanted: _Range, result: Slice | Refusal) -> None:
        if isinstance(result, Refusal):
            self._refuse(wanted, result)
            return
        if self._removed(wanted):
            return
        if result.skipped:
            # Lost to damage, and passed over: the reader hears of them by the gap in the offsets, operators by this.
            self._state.skipped(wanted.key, result)
        # As of now and not of the read, which may have waited: a reader knows by them how far it is behind.
        min_offset, max_offset = self._state.store.ends(*wanted.key)
        head = ReadRangeResponseB2C(
            success=True,
            err_code=Code.SUCCESS,
            err_msg="OK!",
            next_offset=result.next_offset,
            min_offset=min_offset,
            max_offset=max_offset,
        )
        wanted.call.reply(encode_read_range_response(head, result.parts))
        counters = self._state.counters
        counters.served(wanted.key[0], result.count, result.payload_bytes)
        if MESSAGE.on and result.count:
            tracing.record_range_read(wanted.call, *wanted.key, result)
        counters.fetch_s.add(self._state.clock.now_s() - wanted.call.received_s)

    # --- PARTITION_OFFSETS ----------------------------------------------------------------------------------

    async def offsets(self, call: Call) -> None:
        """Serve PartitionOffsets: respond with ends of partitions, groups' confirmed offsets, and offsets by time."""
        async with self._state.turns_of(call).request(call.connection) as turn:
            if call.expired or call.connection.closed:
                call.drop()
            else:
                await self._serve_offsets(call, turn)

    async def _serve_offsets(self, call: Call, turn: Turn) -> None:
        request, named = decode_apart(PartitionOffsetsRequest, call.request.body, "partitions")
        state = self._state
        try:
            state.serving.check_started()
            caller = state.access.identify(
                request.auth_info,
                request.client_id.strip(),
                now_s=state.clock.now_s(),
                wall_s=state.clock.wall_ms() / 1000,
            )
            check_client_id(request.client_id)
            for group in request.group_names:
                caller.permit(describe_group(group.strip()))
            wanted = await self._find_wanted(turn, named, caller)
            positions = await self._positions(turn, request, wanted, caller)
            # Only on request, as it may have to read the disk.
            found = {} if request.not_before_ms is None else await self._look_up(wanted, request.not_before_ms)
        except Refused as refused:
            code, text = refused.refusal
            call.reply(encode(PartitionOffsetsResponse(success=False, err_code=code, err_msg=text)))
            return
        # To protobuf, encodings one behind the other are one message whose lists go on, so it is built in slices.
        parts = [encode(PartitionOffsetsResponse(success=True, err_code=Code.SUCCESS, err_msg="OK!"))]
        for keys in sliced(list(wanted)):
            parts.append(encode_values(PartitionOffsetsResponse, "partitions", self._ends(keys, found)))
            if len(keys) == LONG_WORK_SLICE:
                await turn()
        call.reply(parts + positions)

    async def _look_up(self, wanted: Collection[PartitionKey], not_before_ms: int) -> dict[PartitionKey, int]:
        """Return the offset of each partition at that time, which may be on the disk. Raises Refused."""
        state = self._state
        if state.pending_reads >= state.max_pending_reads:
            raise Refused(Code.SERVICE_UNAVAILABLE, "too many reads wait for this Broker's disk")

        def look(keys: Sequence[PartitionKey]) -> dict[PartitionKey, int]:
            return {key: state.store.offset_at(*key, not_before_ms) for key in keys}

        loop = asyncio.get_running_loop()
        found: dict[PartitionKey, int] = {}
        state.pending_reads += 1
        try:
            for keys in sliced(list(wanted)):  # other requests run between slices
                found.update(await loop.run_in_executor(state.lookups, look, keys))
        except (StorageError, OSError) as error:
            what = error.message if isinstance(error, TubeError) else str(error)
            raise Refused(Code.INTERNAL_SERVER_ERROR, f"offsets by time cannot be read: {what}") from error
        except NotFoundError as error:  # a topic was removed meanwhile
            raise Refused(Code.FORBIDDEN, error.message) from error
        finally:
            state.pending_reads -= 1
        return found

    def _ends(self, keys: Sequence[PartitionKey], by_time: Mapping[PartitionKey, int]) -> list[PartitionEnds]:
        found = []
        for key in keys:
            try:
                extent = self._state.store.extent(*key)
            except NotFoundError:  # removed while the request was worked on
                continue
            found.append(
                PartitionEnds(
                    topic_name=key[0],
                    partition_id=key[1],
                    min_offset=extent.min_offset,
                    max_offset=extent.max_offset,
                    offset_by_time=by_time.get(key),
                    size_bytes=extent.max_position - extent.min_position,
                )
            )
        return found

    async def _find_wanted(
        self, turn: Turn, named: Values[TopicPartition], caller: Identified
    ) -> dict[PartitionKey, None]:
        """Return the requested partitions that are served here, each once.

        When none is named: all of the topics that the caller may describe. One that it names and may not describe is
        refused whether it exists or not. Raises Refused.
        """
        topics = self._state.topics
        wanted: dict[PartitionKey, None] = {}
        if not named:
            for served in topics:
                if caller.is_permitted(describe_topic(served.config.name)):
                    wanted.update(dict.fromkeys((served.config.name, pid) for pid in sorted(served.partition_ids)))
        for items in named.slices(LONG_WORK_SLICE):
            for topic in {item.topic_name.strip() for item in items}:
                caller.permit(describe_topic(topic))
            for item in items:
                found = topics.get(item.topic_name)
                if found is not None and item.partition_id in found.partition_ids:
                    wanted[item.topic_name, item.partition_id] = None
            # Only behind a full slice, so that a short request is served at once.
            if len(items) == LONG_WORK_SLICE:
                await turn()
        return wanted

    async def _positions(
        self, turn: Turn, request: PartitionOffsetsRequest, wanted: Collection[PartitionKey], caller: Identified
    ) -> list[bytes]:
        """Build parts of the response: positions in these partitions, durable ones only.

        Where all groups are asked for, those are left out that the caller may not describe. A consumer is listed with
        the position it began at, which is durable by then.
        """
        if not request.all_groups and not request.group_names:
            return []
        groups = None if request.all_groups else frozenset(request.group_names)
        permitted: dict[str, bool] = {}
        registry, now_s = self._state.registry, self._state.clock.now_s()
        parts: list[bytes] = []
        count = total_chars = looked_at = 0
        found: list[GroupPosition] = []
        # A copy as of one moment, though other requests run between the slices.
        for (group, topic, partition_id), offset in self._state.store.positions().items():
            # Also a scan that finds nothing gives way to other requests.
            looked_at += 1
            if looked_at % _SCANNED == 0 or len(found) == LONG_WORK_SLICE:
                parts.append(encode_values(PartitionOffsetsResponse, "groups", found))
                found = []
                await turn()
            if (topic, partition_id) not in wanted or (groups is not None and group not in groups):
                continue
            if group not in permitted:
                permitted[group] = caller.is_permitted(describe_group(group))
            if not permitted[group]:
                continue
            hold = registry.get(RegistrationKey(group, topic, partition_id), now_s=now_s)
            total_chars += _POSITION_CHARS + len(group) + len(topic) + (len(hold.consumer_id) if hold else 0)
            if total_chars > MAX_POSITIONS_CHARS:
                raise Refused(
                    Code.BAD_REQUEST,
                    f"more than {count} positions in one request; name the groups or the partitions",
                )
            count += 1
            found.append(
                GroupPosition(
                    group_name=group,
                    topic_name=topic,
                    partition_id=partition_id,
                    confirmed_offset=offset,
                    consumer_id=hold.consumer_id if hold else None,
                )
            )
        parts.append(encode_values(PartitionOffsetsResponse, "groups", found))
        return parts
