"""READ_RANGE and PARTITION_OFFSETS: reading and looking without a group.

The invariants: nothing here changes what any group has confirmed or is handed out; nobody is answered who may not
register a consumer, and as there is no registration to rely on, that is looked at with every request.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytubemq.broker import checks, told
from pytubemq.broker.checks import Refused
from pytubemq.broker.cursor import whole
from pytubemq.broker.pacing import Pacer
from pytubemq.broker.reading import ReadLimits, expected_size, read
from pytubemq.broker.registry import HoldKey
from pytubemq.broker.submission import Refusal
from pytubemq.errors import Code, NotFoundError, StorageError, TubeError
from pytubemq.model.limits import MAX_POSITIONS_TOLD_CHARS
from pytubemq.observe.story import MESSAGE
from pytubemq.wire.codec import decode, encode
from pytubemq.wire.messages.extension import (
    GroupPosition,
    PartitionEnds,
    PartitionOffsetsRequest,
    PartitionOffsetsResponse,
    ReadRangeRequestC2B,
    ReadRangeResponseB2C,
)
from pytubemq.wire.stored import read_range_answer

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from pytubemq.broker.state import BrokerState
    from pytubemq.broker.waiters import PartitionKey
    from pytubemq.net.call import Call
    from pytubemq.storage.selection import Slice


_POSITION_CHARS = 40
"""What a position takes in an answer beside its names."""


@dataclass(slots=True)
class _Range:
    """A READ_RANGE under way."""

    call: Call
    key: PartitionKey
    offset: int
    end_offset: int | None
    limits: ReadLimits
    codes: frozenset[int] | None
    """Of the message types that are wanted; None for all."""


class RangeHandlers:
    """Methods 101 and 102."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    # --- READ_RANGE -----------------------------------------------------------------------------------------

    def read_range(self, call: Call) -> None:
        """ReadRange: messages from an offset on."""
        request = decode(ReadRangeRequestC2B, call.request.body)
        state = self._state
        try:
            state.gate.check_read()
            state.visits.check_consumer(request.auth_info, now_s=state.clock.now_s())
            checks.client(request.client_id)
            served = checks.topic(request.topic_name, state.topics)
            checks.partition(served, request.partition_id)
            checks.open_for_reading(served)
            if request.offset < 0 or (request.end_offset is not None and request.end_offset < request.offset):
                raise Refused(
                    Code.BAD_REQUEST, f"offsets {request.offset} to {request.end_offset} are no range to read"
                )
            codes = checks.filter_codes(request.filters)
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
        key = (served.config.name, request.partition_id)
        self._attempt(_Range(call, key, whole(request.offset), request.end_offset, limits, codes))

    def _attempt(self, wanted: _Range, *, may_wait: bool = True) -> None:
        state = self._state
        if self._removed(wanted):
            return
        min_offset, max_offset = state.store.ends(*wanted.key)
        if wanted.offset < min_offset:
            self._refuse(
                wanted, Refusal(Code.MOVED, f"offset {wanted.offset} is no longer kept, the first is {min_offset}")
            )
        elif wanted.offset >= max_offset and wanted.offset != wanted.end_offset:
            if not (may_wait and self._hold(wanted)):
                self._refuse(wanted, Refusal(Code.NOT_FOUND, f"there is nothing at offset {wanted.offset} yet"))
        else:
            size = expected_size(state, wanted.key, wanted.offset, wanted.limits.max_bytes)
            Pacer.of(wanted.call.connection).run(lambda most_bytes: self._read(wanted, most_bytes), size)

    def _read(self, wanted: _Range, most_bytes: int) -> None:
        pacer = Pacer.of(wanted.call.connection)

        def done(result: Slice | Refusal) -> None:
            try:
                self._deliver(wanted, result)
            finally:
                pacer.ended()

        if wanted.call.expired:
            wanted.call.drop()
            pacer.ended()
        elif self._removed(wanted):
            pacer.ended()
        else:
            read(
                self._state,
                *wanted.key,
                wanted.offset,
                wanted.limits.within(most_bytes),
                done,
                end_offset=wanted.end_offset,
                codes=wanted.codes,
            )

    def _removed(self, wanted: _Range) -> bool:
        """Refuse a read whose topic was taken away while it waited; True if so."""
        topic = wanted.key[0]
        if self._state.topics.get(topic) is not None:
            return False
        self._refuse(wanted, Refusal(Code.FORBIDDEN, f"topic {topic} is not at this Broker any more"))
        return True

    def _hold(self, wanted: _Range) -> bool:
        state = self._state
        return state.gate.started and state.waiters.hold(
            wanted.key,
            connection=id(wanted.call.connection),
            wait_s=wanted.limits.wait_until_s - state.clock.now_s(),
            resume=lambda timed_out: self._attempt(wanted, may_wait=not timed_out),
        )

    def _refuse(self, wanted: _Range, refusal: Refusal) -> None:
        """Answer with a code; where the partition's ends explain it, they are told."""
        self._state.counters.fetch_refused(refusal.code)
        ends: tuple[int, int] | None = None
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
            self._state.skipped(wanted.key, result)
        min_offset, max_offset = self._state.store.ends(*wanted.key)
        head = ReadRangeResponseB2C(
            success=True,
            err_code=Code.SUCCESS,
            err_msg="OK!",
            next_offset=result.next_offset,
            min_offset=min_offset,
            max_offset=max_offset,
        )
        wanted.call.reply(read_range_answer(head, result.parts))
        counters = self._state.counters
        counters.served(wanted.key[0], result.count, result.payload_bytes)
        if MESSAGE.on and result.count:
            told.read(wanted.call, *wanted.key, result)
        counters.fetch_s.add(self._state.clock.now_s() - wanted.call.received_s)

    # --- PARTITION_OFFSETS ----------------------------------------------------------------------------------

    def offsets(self, call: Call) -> Coroutine[Any, Any, None] | None:
        """PartitionOffsets: ends of partitions, how far groups have confirmed there, and what came at a time."""
        request = decode(PartitionOffsetsRequest, call.request.body)
        state = self._state
        try:
            state.gate.check_started()
            state.visits.check_consumer(request.auth_info, now_s=state.clock.now_s())
            checks.client(request.client_id)
            wanted = self._wanted(request)
            groups = self._positions(request, frozenset(wanted))
        except Refused as refused:
            _refuse_offsets(call, refused.refusal)
            return None
        if request.not_before_ms is not None:
            return self._look_up(call, wanted, groups, request.not_before_ms)
        self._tell_offsets(call, wanted, groups, {})
        return None

    async def _look_up(
        self, call: Call, wanted: list[PartitionKey], groups: tuple[GroupPosition, ...], not_before_ms: int
    ) -> None:
        """Answer once it is known where each partition was at that time; that may be on the disk."""
        state = self._state
        if state.pending_reads >= state.max_pending_reads:
            _refuse_offsets(call, Refusal(Code.SERVICE_UNAVAILABLE, "too many reads wait for this Broker's disk"))
            return

        def look() -> dict[PartitionKey, int]:
            return {key: state.store.offset_at(*key, not_before_ms) for key in wanted}

        state.pending_reads += 1
        try:
            found = await asyncio.get_running_loop().run_in_executor(state.lookups, look)
        except (StorageError, OSError) as error:
            what = error.message if isinstance(error, TubeError) else str(error)
            _refuse_offsets(call, Refusal(Code.INTERNAL_SERVER_ERROR, f"offsets by time cannot be read: {what}"))
            return
        except NotFoundError as error:  # a topic was removed meanwhile
            _refuse_offsets(call, Refusal(Code.FORBIDDEN, error.message))
            return
        finally:
            state.pending_reads -= 1
        self._tell_offsets(call, wanted, groups, found)

    def _tell_offsets(
        self,
        call: Call,
        wanted: list[PartitionKey],
        groups: tuple[GroupPosition, ...],
        by_time: Mapping[PartitionKey, int],
    ) -> None:
        partitions = []
        for key in wanted:
            try:
                extent = self._state.store.extent(*key)
            except NotFoundError:  # removed while offsets were looked up
                continue
            partitions.append(
                PartitionEnds(
                    topic_name=key[0],
                    partition_id=key[1],
                    min_offset=extent.min_offset,
                    max_offset=extent.max_offset,
                    offset_by_time=by_time.get(key),
                    size_bytes=extent.max_position - extent.min_position,
                )
            )
        call.reply(
            encode(
                PartitionOffsetsResponse(
                    success=True,
                    err_code=Code.SUCCESS,
                    err_msg="OK!",
                    partitions=tuple(partitions),
                    groups=groups,
                )
            )
        )

    def _wanted(self, request: PartitionOffsetsRequest) -> list[PartitionKey]:
        """The partitions asked for that are served here, each once; all of them when none is named."""
        topics = self._state.topics
        if not request.partitions:
            return [(served.config.name, pid) for served in topics for pid in sorted(served.partition_ids)]
        wanted: dict[PartitionKey, None] = {}
        for item in request.partitions:
            served = topics.get(item.topic_name)
            if served is not None and item.partition_id in served.partition_ids:
                wanted[item.topic_name, item.partition_id] = None
        return list(wanted)

    def _positions(
        self, request: PartitionOffsetsRequest, wanted: frozenset[PartitionKey]
    ) -> tuple[GroupPosition, ...]:
        """Durable positions only; a holder is told with the position it began at, which is durable by then."""
        if not request.all_groups and not request.group_names:
            return ()
        groups = None if request.all_groups else frozenset(request.group_names)
        registry, now_s = self._state.registry, self._state.clock.now_s()
        found: list[GroupPosition] = []
        told_chars = 0
        for (group, topic, partition_id), offset in self._state.store.positions().items():
            if (topic, partition_id) not in wanted or (groups is not None and group not in groups):
                continue
            hold = registry.get(HoldKey(group, topic, partition_id), now_s=now_s)
            told_chars += _POSITION_CHARS + len(group) + len(topic) + (len(hold.consumer_id) if hold else 0)
            if told_chars > MAX_POSITIONS_TOLD_CHARS:
                raise Refused(
                    Code.BAD_REQUEST,
                    f"more than {len(found)} positions are asked for at once; name the groups or the partitions",
                )
            found.append(
                GroupPosition(
                    group_name=group,
                    topic_name=topic,
                    partition_id=partition_id,
                    confirmed_offset=offset,
                    consumer_id=hold.consumer_id if hold else None,
                )
            )
        return tuple(found)


def _refuse_offsets(call: Call, refusal: Refusal) -> None:
    call.reply(encode(PartitionOffsetsResponse(success=False, err_code=refusal.code, err_msg=refusal.text)))
