"""Resets of a group's offsets at all Brokers concerned, and their history.

The invariants: every Broker is first asked whether it can do it, and nothing is moved unless all can; what a response
reports as moved is durable at its Broker.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytubemq.errors import BadRequestError, Code, FormatError, NotFoundError, TubeError, UnavailableError, refused
from pytubemq.master.broker_inspector import CLIENT_ID, BrokerInspector, InspectedOffsets
from pytubemq.master.views import GroupReset, MovedPosition, PastReset, ResetHistory, iso
from pytubemq.model.ids import Partition
from pytubemq.model.limits import MAX_RESETS
from pytubemq.model.offset import messages_between
from pytubemq.net.client.probe import probed
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.extension import (
    OffsetReset,
    ResetHistoryRequest,
    ResetHistoryResponse,
    ResetOffsetsRequest,
    ResetOffsetsResponse,
    ResetResult,
)
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.text.positional import match_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytubemq.core.reset_target import ResetTarget
    from pytubemq.model.ids import Address
    from pytubemq.net.client.pool import ConnectionPool
    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo

R = TypeVar("R", bound=ResetHistoryResponse | ResetOffsetsResponse)

SHOWN_FAULTS = 3


_HINT: Final = "correct the request as the message says, then retry"


class CannotResetError(TubeError):
    """A Broker of the original cannot reset offsets over RPC: it has no such method."""


class GroupResets:
    """Resets through the Brokers; `timeout_s` bounds each response."""

    def __init__(
        self,
        pool: ConnectionPool,
        inspector: BrokerInspector,
        *,
        timeout_s: float,
        tokens: Callable[[str], AuthorizedInfo | None] = lambda client_id: None,
    ) -> None:
        self._pool = pool
        self._tokens = tokens
        self._inspector = inspector
        self._timeout_s = timeout_s

    async def move(
        self,
        brokers: Mapping[int, Address],
        group: str,
        partitions: Sequence[Partition],
        target: ResetTarget,
        *,
        user: str,
        dry_run: bool,
    ) -> GroupReset:
        """Move a group in these partitions; `brokers` has the address of each one's Broker.

        Raises:
            BadRequestError: some partition has no such offset, or its Broker does not support it; nothing was moved.
            UnavailableError: a Broker does not respond. The text says whether others have moved the group already.
        """
        wanted: dict[int, list[Partition]] = {}
        for partition in partitions:
            wanted.setdefault(partition.broker_id, []).append(partition)
        for broker_id, theirs in wanted.items():
            if len(theirs) > MAX_RESETS:
                raise BadRequestError(
                    f"{len(theirs)} partitions of broker {broker_id} at once, {MAX_RESETS} are allowed",
                    hint="name some of the partitions",
                    code=Code.BAD_REQUEST,
                )
        found = await self._request_all(brokers, wanted, group, target, user=user, dry_run=True, done={})
        faults = {p: r.err_msg or "" for p, r in found.items() if r.err_code != Code.SUCCESS}
        if faults:
            raise BadRequestError(
                f"nothing was moved: {_faults_text(faults)}",
                hint="choose earliest, latest or a time, or an offset at which a message of the partition begins"
                if len(partitions) == 1
                else "choose a target that every partition has: earliest, latest or a time",
                code=Code.BAD_REQUEST,
            )
        ends = await self._inspector.offsets(brokers, partitions=partitions)
        if not dry_run:
            found = await self._request_all(brokers, wanted, group, target, user=user, dry_run=False, done={})
            late = [f"{p}: {r.err_msg}" for p, r in found.items() if r.err_code != Code.SUCCESS]
            if late:
                raise UnavailableError(
                    f"{len(found) - len(late)} of {len(found)} positions were moved; {'; '.join(late[:SHOWN_FAULTS])}",
                    hint="retry; partitions that were moved already keep their new offset",
                    code=Code.SERVICE_UNAVAILABLE,
                )
        return GroupReset(
            group=group,
            to=target.text,
            dry_run=dry_run,
            partitions=[_moved(partition, found[partition], ends) for partition in partitions],
        )

    async def history(
        self, brokers: Mapping[int, Address], group: str | None, *, most: int, away: Iterable[str] = ()
    ) -> ResetHistory:
        """Return the newest resets of a group at these Brokers, newest first.

        `away` names Brokers that cannot be asked; the result has them among the unreachable ones.
        """
        request = ResetHistoryRequest(client_id=CLIENT_ID, group_name=group, max_records=most)
        broker_ids = sorted(brokers)
        responses = await asyncio.gather(
            *(
                self._request(broker_id, brokers[broker_id], request, ResetHistoryResponse, Method.RESET_HISTORY)
                for broker_id in broker_ids
            ),
            return_exceptions=True,
        )
        resets: list[PastReset] = []
        unreachable, unsupported = [], []
        for broker_id, response in zip(broker_ids, responses, strict=True):
            if isinstance(response, CannotResetError):
                unsupported.append(response.message)
            elif isinstance(response, TubeError):
                unreachable.append(response.message)
            elif isinstance(response, BaseException):
                raise response
            else:
                resets += (
                    PastReset(
                        time=iso(one.time_ms),
                        user=one.user,
                        group=one.group_name,
                        partition=str(Partition(broker_id, one.topic_name, one.partition_id)),
                        asked=one.asked,
                        old_offset=one.old_offset,
                        new_offset=one.new_offset,
                    )
                    for one in response.records
                )
        resets.sort(key=lambda one: one.time, reverse=True)
        return ResetHistory(resets=resets[:most], unreachable=[*unreachable, *away], unsupported=unsupported)

    # --- inside -------------------------------------------------------------------------------------------------

    async def _request_all(
        self,
        brokers: Mapping[int, Address],
        wanted: Mapping[int, Sequence[Partition]],
        group: str,
        target: ResetTarget,
        *,
        user: str,
        dry_run: bool,
        done: dict[Partition, ResetResult],
    ) -> dict[Partition, ResetResult]:
        """Return the result of each partition from its Broker."""

        async def request_of(broker_id: int) -> None:
            request = ResetOffsetsRequest(
                client_id=CLIENT_ID,
                group_name=group,
                user=user,
                resets=tuple(_reset(partition, target) for partition in wanted[broker_id]),
                dry_run=dry_run or None,
            )
            response = await self._request(
                broker_id, brokers[broker_id], request, ResetOffsetsResponse, Method.RESET_OFFSETS
            )
            done.update(match_results(wanted[broker_id], response.results, "partitions to reset"))

        results = await asyncio.gather(*map(request_of, wanted), return_exceptions=True)
        for error in results:
            if isinstance(error, TubeError):
                moved = 0 if dry_run else sum(result.err_code == Code.SUCCESS for result in done.values())
                said = f"{moved} positions were moved" if moved else "nothing was moved"
                raise refused(
                    error.code or Code.SERVICE_UNAVAILABLE, f"{said}: {error.message}", hint=error.hint or _HINT
                ) from error
            if error is not None:
                raise error
        return done

    async def _request(
        self, broker_id: int, address: Address, request: Any, response_type: type[R], method: Method
    ) -> R:
        """Return one Broker's response. Raises TubeError, whose text names the Broker."""
        name = f"broker {broker_id} at {address}"
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await probed(self._pool, address, client_id=CLIENT_ID, timeout_s=self._timeout_s)
                if Capability.RESET_OFFSETS not in connection.capabilities:
                    raise CannotResetError(
                        f"{name} cannot reset offsets over RPC: use its own page (/broker.htm?method=admin_set_offset)",
                        code=Code.BAD_REQUEST,
                    )
                request = replace(request, auth_info=self._tokens(CLIENT_ID))
                response: R = await connection.request(
                    request, response_type, method, Service.BROKER_READ, timeout_s=self._timeout_s
                )
        except CannotResetError:
            raise
        except (TubeError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else f"no response within {self._timeout_s:g} s"
            raise UnavailableError(
                f"{name}: {reason}",
                hint="check whether that Broker runs (`pytubemq cluster health`), or name partitions of others",
                code=Code.SERVICE_UNAVAILABLE,
            ) from error
        if not response.success:
            raise refused(response.err_code, f"{name}: {response.err_msg}")
        return response


def _faults_text(faults: Mapping[Partition, str]) -> str:
    """Return the first fault, and how many more partitions have one: about the same target, all say much the same."""
    (partition, text), *others = faults.items()
    if not others:
        return f"{partition}: {text}"
    if all(other == text for _, other in others):
        return f"{text} (in {len(faults)} partitions)"
    more = "1 more partition refuses" if len(others) == 1 else f"{len(others)} more partitions refuse"
    return f"{partition}: {text}; {more} it as well"


def choose_partitions(partitions: Iterable[Partition], names: Iterable[str]) -> list[Partition]:
    """Return the named partitions: `0` (of each Broker), `1:0` (of Broker 1) or `1:demo:0`; all if none is named.

    Raises:
        NotFoundError: no partition has one of the names.
    """
    all_of_them = list(partitions)
    wanted: list[Partition] = []
    for name in names:
        fitting = [partition for partition in all_of_them if _fits(partition, name.strip())]
        if not fitting:
            raise NotFoundError(
                f"there is no partition {name[:80]!r}",
                hint="give its number (0), with its Broker before it (1:0), or 1:topic:0; `topic show` lists them",
                code=Code.NOT_FOUND,
            )
        wanted += fitting
    return list(dict.fromkeys(wanted)) or all_of_them


def _fits(partition: Partition, name: str) -> bool:
    if name.isascii() and name.isdecimal():
        return str(partition.partition_id) == name
    if name.count(":") == 1:
        return name == f"{partition.broker_id}:{partition.partition_id}"
    try:
        return Partition.parse(name) == partition
    except FormatError:
        return False


def _reset(partition: Partition, target: ResetTarget) -> OffsetReset:
    place = {"offset": target.offset} if target.offset is not None else {"to": target.to.value}
    return OffsetReset(
        topic_name=partition.topic,
        partition_id=partition.partition_id,
        time_ms=target.time_ms,
        asked=target.asked,
        **place,
    )


def _moved(partition: Partition, result: ResetResult, ends: InspectedOffsets) -> MovedPosition:
    least, most = ends.ends.get(partition, (None, None))
    old, new = result.old_offset, result.new_offset or 0
    return MovedPosition(
        partition=str(partition),
        old_offset=old,
        new_offset=new,
        # a group that has confirmed nothing has every stored message to read
        old_lag=None if most is None else messages_between(max(old or 0, least or 0), most),
        new_lag=None if most is None else messages_between(new, most),
    )
