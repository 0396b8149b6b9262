"""RESET_OFFSETS and RESET_HISTORY: moves of a group to other offsets, and the past ones.

The invariants: a response that reports a move comes when that is durable; a target outside the partition's range, or
between two messages, is refused with its neighbours, and never replaced by another; a dry run changes nothing. Both may
take long, so they work in slices.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.broker import request_checks
from pytubemq.broker.members.caller_access import Identified, consume_from, describe_group, join_group
from pytubemq.broker.members.cursor import whole
from pytubemq.broker.offsets.offset_admin import OffsetAdmin
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.core.refusal import Refused
from pytubemq.core.request_fields import check_client_id, check_field, check_group_name
from pytubemq.core.reset_target import ResetTarget, ResetTo
from pytubemq.errors import Code, RefusedError, TubeError
from pytubemq.model.limits import (
    LONG_WORK_SLICE,
    MAX_POSITIONS_CHARS,
    MAX_RESET_RECORDS,
    MAX_RESETS,
    MAX_USER_CHARS,
)
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.net.server.long_work import sliced
from pytubemq.wire.protocol.messages.extension import (
    OffsetReset,
    ResetHistoryRequest,
    ResetHistoryResponse,
    ResetOffsetsRequest,
    ResetOffsetsResponse,
    ResetRecord,
    ResetResult,
)
from pytubemq.wire.serialization.message_bytes import decode, decode_apart, encode, encode_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.broker.members.reset_history import Reset
    from pytubemq.broker.state import BrokerState
    from pytubemq.net.server.call import Call
    from pytubemq.net.server.long_work import Turn
    from pytubemq.storage.store.store import BrokerStore
    from pytubemq.wire.serialization.message_bytes import Values

_DEFAULT_RECORDS: Final = 100
"""The records in a response when no number is requested."""
_RECORD_CHARS: Final = 80
"""The size of a record in a response beside its texts."""


class _Move(NamedTuple):
    """A reset that can be made."""

    target: ResetTarget
    offset: int


class _Look(NamedTuple):
    """A reset whose target must be looked up, perhaps on the disk."""

    target: ResetTarget
    time_ms: int


class ResetHandlers:
    """The handlers of methods 104 and 105."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._admin = OffsetAdmin(state)

    async def reset(self, call: Call) -> None:
        """Serve ResetOffsets: each item is moved or refused individually."""
        async with self._state.turns_of(call).request(call.connection) as turn:
            if call.expired or call.connection.closed:
                call.drop()
            else:
                await self._serve_reset(call, turn)

    async def _serve_reset(self, call: Call, turn: Turn) -> None:
        request, resets = decode_apart(ResetOffsetsRequest, call.request.body, "resets")
        try:
            call.reply(await self._reset(call.peer, turn, request, resets))
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

    async def history(self, call: Call) -> None:
        """Serve ResetHistory: respond with past moves, the newest first."""
        async with self._state.turns_of(call).request(call.connection) as turn:
            if call.expired or call.connection.closed:
                call.drop()
            else:
                await self._serve_history(call, turn)

    async def _serve_history(self, call: Call, turn: Turn) -> None:
        request = decode(ResetHistoryRequest, call.request.body)
        try:
            self._check_admitted(request).permit(describe_group((request.group_name or "").strip()))
        except Refused as refused:
            code, text = refused.refusal
            call.reply(encode(ResetHistoryResponse(success=False, err_code=code, err_msg=text)))
            return
        asked = _DEFAULT_RECORDS if request.max_records is None else request.max_records
        found = self._state.resets.newest(group=request.group_name, most=min(max(asked, 0), MAX_RESET_RECORDS))
        parts = [encode(ResetHistoryResponse(success=True, err_code=Code.SUCCESS, err_msg="OK!"))]
        chars = 0
        for slice_of in sliced(found):
            records = []
            for reset in slice_of:
                chars += _RECORD_CHARS + len(reset.group) + len(reset.topic) + len(reset.asked) + len(reset.user)
                if chars > MAX_POSITIONS_CHARS:
                    break
                records.append(_record(reset))
            parts.append(encode_values(ResetHistoryResponse, "records", records))
            if len(records) < len(slice_of):
                break
            await turn()
        call.reply(parts)

    def _check_admitted(self, request: ResetOffsetsRequest | ResetHistoryRequest) -> Identified:
        """Return who calls; refuse clients that may not register a consumer either."""
        self._state.serving.check_started()
        clock = self._state.clock
        caller = self._state.access.identify(
            request.auth_info, request.client_id.strip(), now_s=clock.now_s(), wall_s=clock.wall_ms() / 1000
        )
        check_client_id(request.client_id)
        return caller

    # --- inside ---------------------------------------------------------------------------------------------

    async def _reset(
        self, peer: str, turn: Turn, request: ResetOffsetsRequest, resets: Values[OffsetReset]
    ) -> list[bytes]:
        """Make the moves; return the response in parts."""
        caller = self._check_admitted(request)
        group = check_group_name(request.group_name)
        caller.permit(join_group(group))
        user = caller.author or check_field(request.user, "user", MAX_USER_CHARS)
        if len(resets) > MAX_RESETS:
            raise Refused(Code.BAD_REQUEST, f"{len(resets)} resets in one request, {MAX_RESETS} are allowed")
        parts = [encode(ResetOffsetsResponse(success=True, err_code=Code.SUCCESS, err_msg="OK!"))]
        moves: dict[RegistrationKey, _Move] = {}
        for items in resets.slices(LONG_WORK_SLICE):
            for topic in {item.topic_name.strip() for item in items}:
                caller.permit(consume_from(topic))
            results = await self._results(group, items, moves)
            parts.append(encode_values(ResetOffsetsResponse, "results", results))
            await turn()
        if moves and not request.dry_run:
            await self._admin.reset(
                {key: move.offset for key, move in moves.items()},
                user=user,
                asked={key: move.target.text for key, move in moves.items()},
                turn=turn,
                peer=peer,
            )
        return parts

    async def _results(
        self, group: str, items: Sequence[OffsetReset], moves: dict[RegistrationKey, _Move]
    ) -> list[ResetResult]:
        """Return the result of each item of a slice; add those that can be moved to `moves`."""
        named: set[RegistrationKey] = set()
        looks: dict[RegistrationKey, _Look] = {}
        outcomes: list[tuple[RegistrationKey, _Move | _Look | Refused]] = []
        for item in items:
            key = RegistrationKey(group, item.topic_name.strip(), item.partition_id)
            outcome = _named_twice(key) if key in named or key in moves else self._resolve(key, item)
            if isinstance(outcome, _Look):
                looks[key] = outcome
            if not isinstance(outcome, Refused):
                named.add(key)
            outcomes.append((key, outcome))
        found = await self._look_up(looks) if looks else {}
        return [
            self._result(key, found[key] if isinstance(outcome, _Look) else outcome, moves) for key, outcome in outcomes
        ]

    def _result(
        self, key: RegistrationKey, outcome: _Move | Refused, moves: dict[RegistrationKey, _Move]
    ) -> ResetResult:
        if isinstance(outcome, Refused):
            return ResetResult(err_code=outcome.refusal.code, err_msg=outcome.refusal.text)
        moves[key] = outcome
        old = self._state.positions.current(key)
        return ResetResult(err_code=Code.SUCCESS, old_offset=old, new_offset=outcome.offset)

    def _resolve(self, key: RegistrationKey, item: OffsetReset) -> _Move | _Look | Refused:
        """Return an item's target, as far as it can be known without the disk."""
        try:
            return self._check(key, item)
        except Refused as refused:
            return refused

    def _check(self, key: RegistrationKey, item: OffsetReset) -> _Move | _Look:
        """Return an item's target as `_resolve` does. Raises Refused."""
        state = self._state
        served = request_checks.topic(key.topic, state.topics)
        request_checks.partition(served, key.partition_id)
        target = _target(item)
        if target.time_ms is not None:
            return _Look(target, target.time_ms)
        least, most = state.store.ends(key.topic, key.partition_id)
        if target.to is ResetTo.EARLIEST:
            return _Move(target, least)
        if target.to is ResetTo.LATEST:
            return _Move(target, most)
        offset = target.offset or 0
        if not least <= offset <= most:
            raise Refused(Code.BAD_REQUEST, _beyond(key, target, offset, least, most))
        if offset % OFFSET_UNIT:
            before = whole(offset)
            raise Refused(
                Code.BAD_REQUEST,
                f"offset {offset} is not a message's: these are {OFFSET_UNIT} apart, its neighbours are {before} and "
                f"{before + OFFSET_UNIT}",
            )
        return _Move(target, offset)

    async def _look_up(self, looks: Mapping[RegistrationKey, _Look]) -> dict[RegistrationKey, _Move | Refused]:
        """Look up a slice's targets by their times, in one job: handing over a single one costs more than most take."""
        store = self._state.store

        def look_up() -> dict[RegistrationKey, _Move | Refused]:
            return {key: _find_target(store, key, look) for key, look in looks.items()}

        return await asyncio.get_running_loop().run_in_executor(self._state.lookups, look_up)


def _find_target(store: BrokerStore, key: RegistrationKey, look: _Look) -> _Move | Refused:
    """Return a partition's offset at a time. On a thread."""
    try:
        return _Move(look.target, store.offset_at(key.topic, key.partition_id, look.time_ms))
    except (TubeError, OSError) as error:
        text = error.message if isinstance(error, TubeError) else str(error)
        return Refused(Code.INTERNAL_SERVER_ERROR, f"the times of {key.topic} cannot be read: {text}")


def _named_twice(key: RegistrationKey) -> Refused:
    return Refused(Code.BAD_REQUEST, f"partition {key.partition_id} of {key.topic} is named twice")


def _beyond(key: RegistrationKey, target: ResetTarget, offset: int, least: int, most: int) -> str:
    """Return the text for an offset out of range, in message numbers as well where one was requested."""
    where = f"is not in partition {key.partition_id} of {key.topic}, which has"
    if target.asked is None:
        return f"offset {offset} {where} {least} to {most}"
    first, end = least // OFFSET_UNIT, most // OFFSET_UNIT
    return f"{target.asked} {where} number:{first} to number:{end} (offsets {least} to {most})"


def _target(item: OffsetReset) -> ResetTarget:
    """Return an item's target, with its text. Raises Refused."""
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
        "a reset names an offset, or one of earliest, latest and time, the latter with timeMs; this one has "
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
