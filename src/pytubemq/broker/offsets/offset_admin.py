"""Changes of groups' positions from outside the group.

The invariants: a change is durable before the response; a consumer of the partition continues at the new position,
whatever it confirms of earlier messages; an impossible change is refused before anything is changed; a new offset is
within the partition's range and is a whole message's; each change is in the history.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final

from pytubemq.broker.members.cursor import Cursor, whole
from pytubemq.broker.members.reset_history import Reset
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.core.refusal import Refusal
from pytubemq.core.reset_target import ResetTo
from pytubemq.errors import BadRequestError, Code, NotFoundError, UnavailableError, refused
from pytubemq.model.missing_topic import missing_text
from pytubemq.observe.trace_events import GROUP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from pytubemq.broker.state import BrokerState

_AT_ONCE: Final = 1_000
"""The number of changes made at once: few, so that others have their turn and the journal takes them."""
_PLACES_HINT: Final = "admin_query_pubinfo lists topics with their partitions and offsets"

PartitionKey = tuple[str, int]
OPERATOR: Final = "operator"
"""The user name on a change without one."""


class OffsetAdmin:
    """An operator's changes of positions. Event loop only."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    async def reset(
        self,
        offsets: Mapping[RegistrationKey, int],
        *,
        user: str,
        asked: Mapping[RegistrationKey, str],
        turn: Callable[[], Awaitable[object]],
        peer: str,
    ) -> None:
        """Set positions to offsets that were checked before.

        Args:
                offsets: the new offsets.
                user: the author.
                asked: the requested targets as text.
                turn: waits until the next of these changes may be made, if they are many.
                peer: the address that it comes from.

        Raises:
            RefusedError: some could not be made durable, or their topic was removed meanwhile; the text says how many
                were.
        """
        await self._change(offsets, user=user, asked=asked, turn=turn, peer=peer)

    async def set_one(self, key: RegistrationKey, offset: int, *, user: str = OPERATOR) -> int | None:
        """Set a group's position to `offset`; return the previous one, None if there was none.

        Raises:
            NotFoundError: no such topic or partition here. BadRequestError: the offset is not one of the partition's.
            RefusedError: it could not be made durable; nothing has changed.
        """
        self._check_partition(key.topic, key.partition_id)
        least, most = self._state.store.ends(key.topic, key.partition_id)
        if not least <= offset <= most:
            raise BadRequestError(
                f"offset {offset} is not in partition {key.partition_id} of {key.topic}, which has {least} to {most}",
                hint=f"give one from {least} to {most}",
                code=Code.BAD_REQUEST,
            )
        before = self._state.positions.current(key)
        await self._change({key: whole(offset)}, user=user)
        return before

    async def set_many(
        self,
        groups: Collection[str],
        offsets: Mapping[PartitionKey, int],
        *,
        user: str = OPERATOR,
        asked: str | None = None,
    ) -> int:
        """Set the positions of all these groups, each within its partition's range; return their number.

        Raises:
            NotFoundError: a topic or partition is not here; nothing was changed.
            RefusedError: some could not be made durable, or their topic was removed meanwhile; the text says how many
                were.
        """
        for topic, partition_id in offsets:
            self._check_partition(topic, partition_id)
        return await self._change(
            {
                RegistrationKey(group, topic, partition_id): self._within(topic, partition_id, offset)
                for group in groups
                for (topic, partition_id), offset in offsets.items()
            },
            user=user,
            asked=asked,
        )

    async def to_end(self, groups: Collection[str], topics: Collection[str], *, user: str = OPERATOR) -> int:
        """Set the positions of all these groups to the current end of these topics; return their number.

        Raises: as `set_many`.
        """
        ends: dict[PartitionKey, int] = {}
        for topic in topics:
            for partition_id in self._partition_ids(topic):
                ends[topic, partition_id] = self._state.store.ends(topic, partition_id)[1]
        return await self.set_many(groups, ends, user=user, asked=ResetTo.LATEST.value)

    async def clone(
        self, source: str, targets: Collection[str], topics: Collection[str], *, user: str = OPERATOR
    ) -> int:
        """Give other groups the positions of `source`, in all its topics if none is named; return their number.

        Raises:
            NotFoundError: the source has no position there. Else as `set_many`.
        """
        wanted = frozenset(topics)
        offsets = {
            (key.topic, key.partition_id): offset
            for key in await self._state.positions.known((source,), wanted)
            if self._is_here(key.topic, key.partition_id) and (offset := self._state.positions.current(key)) is not None
        }
        if not offsets:
            where = f" in {', '.join(sorted(wanted))}" if wanted else ""
            raise NotFoundError(
                f"group {source} has no offset{where} at this Broker",
                hint="admin_query_group lists the groups that have one",
                code=Code.NOT_FOUND,
            )
        others = [group for group in targets if group != source]
        return await self.set_many(others, offsets, user=user, asked=f"as group {source}")

    async def remove(self, groups: Collection[str], topics: Collection[str], *, user: str = OPERATOR) -> int:
        """Forget the positions of these groups, in all topics if none is named; return their number.

        A consumer of such a partition begins again at the first stored message.

        Raises:
            RefusedError: some could not be made durable; the text says how many were.
        """
        named, wanted = frozenset(groups), frozenset(topics)
        known = await self._state.positions.known(named, wanted)
        return await self._change(dict.fromkeys(known), user=user, asked="removed")

    # --- inside ---------------------------------------------------------------------------------------------

    def _is_here(self, topic: str, partition_id: int) -> bool:
        served = self._state.topics.get(topic)
        return served is not None and partition_id in served.partition_ids

    def _partition_ids(self, topic: str) -> list[int]:
        served = self._state.topics.get(topic)
        if served is None:
            raise NotFoundError(f"{missing_text([topic])} at this Broker", hint=_PLACES_HINT, code=Code.NOT_FOUND)
        return sorted(served.partition_ids)

    def _check_partition(self, topic: str, partition_id: int) -> None:
        if partition_id not in self._partition_ids(topic):
            raise NotFoundError(
                f"topic {topic} has no partition {partition_id} at this Broker", hint=_PLACES_HINT, code=Code.NOT_FOUND
            )

    def _within(self, topic: str, partition_id: int, offset: int) -> int:
        least, most = self._state.store.ends(topic, partition_id)
        return min(max(whole(offset), least), most)

    async def _change(
        self,
        wanted: Mapping[RegistrationKey, int | None],
        *,
        user: str,
        asked: Mapping[RegistrationKey, str] | str | None = None,
        turn: Callable[[], Awaitable[object]] | None = None,
        peer: str | None = None,
    ) -> int:
        """Make all these changes durable, a limited number at a time; return their number."""
        if not self._state.serving.started:
            raise UnavailableError("this Broker is starting or stopping", hint="try again later", code=503)
        self._check_room(wanted, may_go=0 if peer is None else self._state.positions.spare.by_reset)
        made = 0
        remaining = iter(wanted.items())
        while batch := list(islice(remaining, _AT_ONCE)):
            refusal = self._find_removed(batch) or self._find_shortage(batch, peer)
            if refusal is None:
                before = {key: self._state.positions.current(key) for key, _ in batch}
                results = await asyncio.gather(*(self._move(key, offset) for key, offset in batch))
                made += results.count(None)
                if turn is not None:
                    await turn()
                moved = [change for change, result in zip(batch, results, strict=True) if result is None]
                await self._state.resets.add(
                    self._record(key, offset, before[key], user=user, asked=asked, peer=peer) for key, offset in moved
                )
                refusal = next((result for result in results if result is not None), None)
            if turn is not None:
                await turn()
            if refusal is not None:
                done = f"; {made} of {len(wanted)} were changed" if made else "; nothing was changed"
                raise refused(refusal.code, f"the offsets could not be written: {refusal.text}{done}")
        return made

    def _record(
        self,
        key: RegistrationKey,
        offset: int | None,
        before: int | None,
        *,
        user: str,
        asked: Mapping[RegistrationKey, str] | str | None,
        peer: str | None,
    ) -> Reset:
        if asked is None:
            asked = f"offset {offset}"
        elif not isinstance(asked, str):
            asked = asked[key]
        if offset is None:  # the group begins there when it comes again
            here = self._is_here(key.topic, key.partition_id)
            offset = self._state.store.ends(key.topic, key.partition_id)[0] if here else 0
        GROUP.record(
            "reset", group=key.group, topic=key.topic, partition=key.partition_id, offset=offset, before=before,
            asked=asked, user=user,
        )  # fmt: skip
        return Reset(
            time_ms=self._state.reset_epochs.get(key),  # so that the epoch stays the same after a restart
            user=user,
            group=key.group,
            topic=key.topic,
            partition_id=key.partition_id,
            asked=asked,
            new_offset=offset,
            old_offset=before,
            host="" if peer is None else peer.rpartition(":")[0],
        )

    def _find_removed(self, batch: Iterable[tuple[RegistrationKey, int | None]]) -> Refusal | None:
        """Return a refusal if a topic was removed: a position in it would wait for the next topic of its name."""
        for key, offset in batch:
            if offset is not None and not self._is_here(key.topic, key.partition_id):
                return Refusal(Code.NOT_FOUND, f"partition {key.partition_id} of {key.topic} is not here any more")
        return None

    def _find_shortage(self, batch: Iterable[tuple[RegistrationKey, int | None]], peer: str | None) -> Refusal | None:
        """Return a refusal if there is no room for the positions that a peer's reset creates; None if there is."""
        positions = self._state.positions
        if peer is None or positions.prepare_resets((key for key, _ in batch), peer):
            return None
        return Refusal(
            Code.BAD_REQUEST,
            f"group positions are full: this Broker keeps {positions.most}, {positions.spare.most_by_reset} of them "
            f"for groups that were reset and have not been read, and has {positions.count}",
        )

    def _check_room(self, wanted: Iterable[RegistrationKey], *, may_go: int) -> None:
        positions = self._state.positions
        new = sum(positions.current(key) is None for key in wanted)
        if new and positions.count - may_go + new > positions.most:
            raise BadRequestError(
                f"{new} more positions do not fit, this Broker keeps {positions.most} and has {positions.count}",
                hint="remove those of groups that are gone (admin_rmv_offset)",
                code=Code.BAD_REQUEST,
            )

    def _move(self, key: RegistrationKey, offset: int | None) -> asyncio.Future[Refusal | None]:
        """Set a position and move its consumer; the result comes when it is durable or refused."""
        state = self._state
        result: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()

        def finish(refusal: Refusal | None) -> None:
            if refusal is not None:
                # back to the previous position; the consumer gets its unconfirmed messages again
                self._put(key, state.positions.current(key))
            if not result.done():
                result.set_result(refusal)

        # Submitted before the consumer is moved: its next confirm then comes behind this in the journal.
        state.positions.choose(key, offset, finish)
        if not (result.done() and result.result() is not None):
            self._put(key, offset)
        return result

    def _put(self, key: RegistrationKey, offset: int | None) -> None:
        """Move the consumer of the partition to its new position, at once if it waits at the end.

        A consumer with RESET_NOTICES must register again; so it learns that the messages it fetched are void.
        """
        state = self._state
        epoch = state.reset_epochs.advance(key, wall_ms=state.clock.wall_ms())
        registration = state.registry.get(key, now_s=state.clock.now_s())
        if registration is None:
            return
        if offset is None:
            offset = state.store.ends(key.topic, key.partition_id)[0]
        registration.cursor = Cursor.at(offset, moved=True)
        registration.is_moved_away = registration.has_reset_notices
        registration.reset_epoch = epoch
        state.waiters.wake([(key.topic, key.partition_id)])
