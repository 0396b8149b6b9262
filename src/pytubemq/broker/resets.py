"""RESET_OFFSETS and RESET_HISTORY: moving a group to another place, and what was moved before.

The invariants: an answer that says a position was moved comes when that is durable; a place outside what the partition
holds, or between two messages, is refused with its neighbours, and no other is taken for it; a dry run changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.broker import checks
from pytubemq.broker.checks import Refused
from pytubemq.broker.cursor import whole
from pytubemq.broker.offset_admin import OffsetAdmin
from pytubemq.broker.registry import HoldKey
from pytubemq.core.reset_target import ResetTarget, ResetTo
from pytubemq.errors import Code, RefusedError, TubeError
from pytubemq.model.limits import MAX_POSITIONS_TOLD_CHARS, MAX_RESET_RECORDS, MAX_RESETS, MAX_USER_CHARS
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.codec import decode, encode
from pytubemq.wire.messages.extension import (
    OffsetReset,
    ResetHistoryRequest,
    ResetHistoryResponse,
    ResetOffsetsRequest,
    ResetOffsetsResponse,
    ResetRecord,
    ResetResult,
)

if TYPE_CHECKING:
    from pytubemq.broker.reset_history import Reset
    from pytubemq.broker.state import BrokerState
    from pytubemq.net.call import Call

_TOLD: Final = 100
"""Records of an answer when no number is asked for."""
_RECORD_CHARS: Final = 80
"""What a record takes in an answer beside its texts."""


class _Move(NamedTuple):
    """A reset that can be made."""

    key: HoldKey
    target: ResetTarget
    offset: int


class ResetHandlers:
    """Methods 104 and 105."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._admin = OffsetAdmin(state)

    async def reset(self, call: Call) -> None:
        """ResetOffsets: each item is moved or refused by itself; all that can be are moved at once."""
        request = decode(ResetOffsetsRequest, call.request.body)
        try:
            call.reply(encode(await self._reset(request)))
        except Refused as refused:
            code, text = refused.refusal
            call.reply(encode(ResetOffsetsResponse(success=False, err_code=code, err_msg=text)))
        except RefusedError as error:
            call.reply(
                encode(
                    ResetOffsetsResponse(
                        success=False, err_code=error.code or Code.SERVICE_UNAVAILABLE, err_msg=error.message
                    )
                )
            )

    def history(self, call: Call) -> None:
        """ResetHistory: what was moved, the newest first."""
        request = decode(ResetHistoryRequest, call.request.body)
        try:
            self._check_admitted(request)
        except Refused as refused:
            code, text = refused.refusal
            call.reply(encode(ResetHistoryResponse(success=False, err_code=code, err_msg=text)))
            return
        asked = _TOLD if request.max_records is None else request.max_records
        found = self._state.resets.newest(group=request.group_name, most=min(max(asked, 0), MAX_RESET_RECORDS))
        records, chars = [], 0
        for reset in found:
            chars += _RECORD_CHARS + len(reset.group) + len(reset.topic) + len(reset.asked) + len(reset.user)
            if chars > MAX_POSITIONS_TOLD_CHARS:
                break
            records.append(_record(reset))
        call.reply(
            encode(ResetHistoryResponse(success=True, err_code=Code.SUCCESS, err_msg="OK!", records=tuple(records)))
        )

    def _check_admitted(self, request: ResetOffsetsRequest | ResetHistoryRequest) -> None:
        """Refuse who may not register a consumer either."""
        self._state.gate.check_started()
        self._state.visits.check_consumer(request.auth_info, now_s=self._state.clock.now_s())
        checks.client(request.client_id)

    # --- inside ---------------------------------------------------------------------------------------------

    async def _reset(self, request: ResetOffsetsRequest) -> ResetOffsetsResponse:
        self._check_admitted(request)
        group = checks.group(request.group_name)
        user = checks.text(request.user, "user", MAX_USER_CHARS)
        if len(request.resets) > MAX_RESETS:
            raise Refused(Code.BAD_REQUEST, f"{len(request.resets)} resets are asked for, {MAX_RESETS} go at once")
        results: list[ResetResult] = []
        moves: list[_Move] = []
        seen: set[HoldKey] = set()
        for item in request.resets:
            key = HoldKey(group, item.topic_name.strip(), item.partition_id)
            try:
                move = await self._resolved(key, item)
                if key in seen:
                    raise Refused(Code.BAD_REQUEST, f"partition {item.partition_id} of {key.topic} is named twice")
            except Refused as refused:
                results.append(ResetResult(err_code=refused.refusal.code, err_msg=refused.refusal.text))
                continue
            seen.add(key)
            moves.append(move)
            old = self._state.positions.current(key)
            results.append(ResetResult(err_code=Code.SUCCESS, old_offset=old, new_offset=move.offset))
        if moves and not request.dry_run:
            await self._admin.reset(
                {move.key: move.offset for move in moves},
                user=user,
                asked={move.key: move.target.text for move in moves},
            )
        return ResetOffsetsResponse(success=True, err_code=Code.SUCCESS, err_msg="OK!", results=tuple(results))

    async def _resolved(self, key: HoldKey, item: OffsetReset) -> _Move:
        """The offset that an item names. Raises Refused."""
        state = self._state
        served = checks.topic(key.topic, state.topics)
        checks.partition(served, key.partition_id)
        target = _target(item)
        least, most = state.store.ends(key.topic, key.partition_id)
        if target.to is ResetTo.EARLIEST:
            return _Move(key, target, least)
        if target.to is ResetTo.LATEST:
            return _Move(key, target, most)
        if target.time_ms is not None:
            return _Move(key, target, await self._at(key, target.time_ms))
        offset = target.offset or 0
        if not least <= offset <= most:
            raise Refused(Code.BAD_REQUEST, _beyond(key, target, offset, least, most))
        if offset % OFFSET_UNIT:
            before = whole(offset)
            raise Refused(
                Code.BAD_REQUEST,
                f"offset {offset} is no message's: they are {OFFSET_UNIT} apart, the ones beside it are {before} and "
                f"{before + OFFSET_UNIT}",
            )
        return _Move(key, target, offset)

    async def _at(self, key: HoldKey, time_ms: int) -> int:
        store = self._state.store
        look = asyncio.get_running_loop().run_in_executor(
            self._state.lookups, store.offset_at, key.topic, key.partition_id, time_ms
        )
        try:
            return await look
        except (TubeError, OSError) as error:
            text = error.message if isinstance(error, TubeError) else str(error)
            raise Refused(Code.INTERNAL_SERVER_ERROR, f"the times of {key.topic} cannot be read: {text}") from error


def _beyond(key: HoldKey, target: ResetTarget, offset: int, least: int, most: int) -> str:
    """That there is no such offset, in numbers of messages as well where one was asked for."""
    where = f"is not in partition {key.partition_id} of {key.topic}, which holds"
    if target.asked is None:
        return f"offset {offset} {where} {least} to {most}"
    first, end = least // OFFSET_UNIT, most // OFFSET_UNIT
    return f"{target.asked} {where} number:{first} to number:{end} (offsets {least} to {most})"


def _target(item: OffsetReset) -> ResetTarget:
    """Where an item says to go, and in which words. Raises Refused."""
    target = _place(item)
    return target if item.asked is None else target.asked_as(item.asked)


def _place(item: OffsetReset) -> ResetTarget:
    if item.offset is not None and item.to is None and item.time_ms is None:
        return ResetTarget(ResetTo.OFFSET, offset=item.offset)
    if item.offset is None and item.to == ResetTo.TIME.value and item.time_ms is not None and item.time_ms >= 0:
        return ResetTarget(ResetTo.TIME, time_ms=item.time_ms)
    if item.offset is None and item.time_ms is None and item.to in (ResetTo.EARLIEST.value, ResetTo.LATEST.value):
        return ResetTarget(ResetTo(item.to))
    raise Refused(
        Code.BAD_REQUEST,
        "a reset names an offset, or one of earliest, latest and time, the latter with timeMs; this one says "
        f"offset {item.offset}, to {(item.to or '')[:40]!r}, timeMs {item.time_ms}",
    )


def _record(reset: Reset) -> ResetRecord:
    return ResetRecord(
        time_ms=reset.time_ms,
        user=reset.user,
        group_name=reset.group,
        topic_name=reset.topic,
        partition_id=reset.partition_id,
        asked=reset.asked,
        new_offset=reset.new_offset,
        old_offset=reset.old_offset,
    )
