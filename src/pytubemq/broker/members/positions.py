"""The confirmed offsets of all groups at this Broker, before and after they are durable.

The invariants: a position is reported as confirmed only once it is durable; a refused confirm leaves no trace, since
its consumer was notified and handles the messages again, and so does a refused reset by an operator; a position whose
refusal nobody waits for (a start, or one that a fetch reports along the way) is kept in memory when its write fails, so
that reading continues, and is written once writes succeed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from pytubemq.broker.append.submission import Confirmation, ConfirmSubmission
from pytubemq.broker.members.spare_positions import SparePositions
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.core.refusal import Refusal, Refused
from pytubemq.errors import Code
from pytubemq.model.limits import MAX_DEFERRED_REGISTRATIONS, MAX_POSITIONS
from pytubemq.storage.format.record import FORGOTTEN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.broker.append.append_path import AppendPath
    from pytubemq.storage.store.store import BrokerStore

logger = logging.getLogger(__name__)

Done = Callable[[Refusal | None], None]


class _Write:
    """A position that is not durable: being written, or `failed` and kept for later. `offset` None: it is removed."""

    __slots__ = ("failed", "keep", "offset")

    def __init__(self, offset: int | None, *, keep: bool = False) -> None:
        self.offset = offset
        self.keep = keep
        self.failed = False


class Positions:
    """The positions of all groups."""

    def __init__(
        self,
        store: BrokerStore,
        path: AppendPath,
        *,
        most: int = MAX_POSITIONS,
        most_deferred: int = MAX_DEFERRED_REGISTRATIONS,
    ) -> None:
        self.most = most
        """The largest number of positions, of all groups."""
        self.most_deferred = most_deferred
        """Callbacks that may wait for confirms in flight at a time."""
        self.spare = SparePositions()
        """Positions that may be removed for others."""
        self.made_room = 0
        """The number of positions that were removed for others."""
        self._store = store
        self._path = path
        self._writes: dict[RegistrationKey, list[_Write]] = {}
        """The writes of each position in the order of submission; at most one of a key has failed."""
        self._changes: dict[RegistrationKey, int] = {}
        """The change in the number of positions by the writes of each key: 1 for a new one, -1 for a removed one."""
        self._change = 0
        """The sum of these."""
        self._unwritten: set[RegistrationKey] = set()
        self._deferred: dict[RegistrationKey, list[Callable[[], None]]] = {}
        """Callbacks that wait until no confirm or reset of a position is in flight."""
        self._deferred_count = 0

    @property
    def unwritten(self) -> int:
        """The number of positions whose write failed and was not repeated successfully."""
        return len(self._unwritten)

    def current(self, key: RegistrationKey) -> int | None:
        """Return the newest position of a group in a partition, durable or being written."""
        writes = self._writes.get(key)
        # The newest and not the durable one: a second confirm must build on the first, though that is still being
        # written.
        return writes[-1].offset if writes else self._durable(key)

    @property
    def full(self) -> bool:
        """True if the bound is reached: no position is added that is not known yet."""
        return self.count >= self.most

    @property
    def count(self) -> int:
        """The number of positions, with those that are being written."""
        return self._store.position_count + self._change

    def has_room(self, key: RegistrationKey) -> bool:
        """True if the group's position in the partition can be stored: it is known, or there is room.

        At the bound, a position that no consumer has used is removed, if there is one.
        """
        if self.current(key) is not None or not self.full:
            return True
        # At most one goes for a new one, and only when the bound is reached.
        self._remove_spare(self.spare.next)
        return not self.full

    def begin(self, key: RegistrationKey, offset: int, done: Done) -> None:
        """Save the position of a consumer that has registered there."""
        if self.current(key) is None:
            self.spare.record_registration(key)
        self.save(key, offset, done)

    def prepare_resets(self, keys: Iterable[RegistrationKey], peer: str) -> bool:
        """Remove as many spare positions as a peer's resets need room for.

        Returns:
                False if there is no room for the new ones.
        """
        # A move of a known position needs no room.
        created = [key for key in keys if self.current(key) is None]
        spare = self.spare
        for _ in created:
            if self._have_room(len(created)):
                break
            self._remove_spare(spare.next_by_reset)
        if created and not self._have_room(len(created)):
            return False
        # After the last refusal, so that a reset that is refused leaves no trace.
        for key in created:
            spare.record_reset(key, peer)
        return True

    def _have_room(self, created: int) -> bool:
        """True if resets may create so many more."""
        return self.spare.by_reset + created <= self.spare.most_by_reset and self.count + created <= self.most

    def _remove_spare(self, find: Callable[[], RegistrationKey | None]) -> None:
        """Remove the next spare position, if there is one."""
        while (key := find()) is not None:
            if self.current(key) is not None:  # else it went with its topic
                self.made_room += 1
                self.choose(key, None, partial(self._keep_refused, key))
                return

    def _keep_refused(self, key: RegistrationKey, refusal: Refusal | None) -> None:
        # It was not removed, so it may be found again when room is needed.
        if refusal is not None and self.current(key) is not None:
            self.spare.record_registration(key)

    def when_decided(self, key: RegistrationKey, then: Callable[[], None]) -> bool:
        """Call `then` once no confirm or reset of this position is in flight; False if none is, and it is not called.

        A consumer that began while one is in flight might begin at the wrong side of it, and keep what is refused.

        Raises:
            Refused: as many callbacks wait as may; `then` is not called.
        """
        if not self._is_undecided(key):
            return False
        # Over all connections, as each of them may register a group in as many partitions as it likes.
        if self._deferred_count >= self.most_deferred:
            raise Refused(
                Code.SERVICE_UNAVAILABLE,
                f"{self._deferred_count} registrations wait for confirms that are being written, which is the limit; "
                "retry later",
            )
        self._deferred_count += 1
        self._deferred.setdefault(key, []).append(then)
        return True

    def _is_undecided(self, key: RegistrationKey) -> bool:
        return any(not write.keep for write in self._writes.get(key, ()))

    def start_position(self, key: RegistrationKey) -> int | None:
        """Return the newest position that can no longer be refused: a consumer begins there."""
        for write in reversed(self._writes.get(key, ())):
            if write.keep:
                return write.offset
        return self._durable(key)

    def save(self, key: RegistrationKey, offset: int, done: Done | None = None) -> None:
        """Make a position durable, later if not now; call `done` then, or at once if it is durable already."""
        self._submit(key, _Write(offset, keep=True), done)

    def commit(self, key: RegistrationKey, offset: int, done: Done) -> None:
        """Make a position durable or, if `done` gets a refusal, forget it."""
        self.spare.record_use(key)
        self._submit(key, _Write(offset), done)

    def choose(self, key: RegistrationKey, offset: int | None, done: Done) -> None:
        """Set a group's position, None to remove it; call `done` when that is durable or refused."""
        if offset is None:
            self.spare.record_use(key)
        self._submit(key, _Write(offset), done)

    async def known(self, groups: Collection[str] = (), topics: Collection[str] = ()) -> set[RegistrationKey]:
        """Return group and partition of each position of these groups in these topics (empty: all), durable or not yet.

        There may be a million, so a thread scans them and the event loop goes on meanwhile.
        """

        def chosen(keys: Iterable[tuple[str, str, int]]) -> set[RegistrationKey]:
            return {
                RegistrationKey(*key)
                for key in keys
                if (not groups or key[0] in groups) and (not topics or key[1] in topics)
            }

        found = await asyncio.to_thread(lambda: chosen(self._store.position_keys()))
        found |= chosen(self._writes)
        return {key for key in found if self.current(key) is not None}

    async def groups(self) -> set[str]:
        """Return every group that has a position; a thread scans them, as in `known`."""
        durable = await asyncio.to_thread(lambda: {group for group, _, _ in self._store.position_keys()})
        return durable | {key.group for key, writes in self._writes.items() if writes[-1].offset is not None}

    def forget(self, topic: str) -> bool:
        """Forget positions in a topic whose write failed; return False if others are still being written."""
        mine = [key for key in self._writes if key.topic == topic]
        for key in mine:
            for write in [write for write in self._writes[key] if write.failed]:
                self._remove(key, write)
            self._unwritten.discard(key)
        return not any(key in self._writes for key in mine)

    def writable_again(self) -> None:
        """Write the positions that failed before, since a write has succeeded."""
        if not self._unwritten:
            return
        keys, self._unwritten = self._unwritten, set()
        for key in keys:
            writes = self._writes[key]
            failed = next(write for write in writes if write.failed)
            if writes[-1] is not failed:
                # Written now it would come behind the newer one; if that is refused, this one still counts.
                self._unwritten.add(key)
                continue
            self._remove(key, failed)
            if failed.offset is not None:
                self.save(key, failed.offset)

    def _durable(self, key: RegistrationKey) -> int | None:
        return self._store.confirmed(key.group, key.topic, key.partition_id)

    def _submit(self, key: RegistrationKey, write: _Write, done: Done | None) -> None:
        # A client may confirm the same offset many times, which must not cost a write each.
        if key not in self._writes and self._durable(key) == write.offset:
            if done is not None:
                done(None)
            return
        self._writes.setdefault(key, []).append(write)
        self._recount(key)

        def finish(refusal: Refusal | None) -> None:
            self._finish_write(key, write, refusal)
            try:
                if done is not None:
                    done(refusal)
            finally:
                # Whatever the callback does: nobody else would ever resume those that wait.
                if key in self._deferred and not self._is_undecided(key):
                    waiting = self._deferred.pop(key)
                    self._deferred_count -= len(waiting)
                    for then in waiting:
                        then()

        offset = FORGOTTEN if write.offset is None else write.offset
        self._path.submit(ConfirmSubmission(Confirmation(key.group, key.topic, key.partition_id, offset), finish))

    def _finish_write(self, key: RegistrationKey, write: _Write, refusal: Refusal | None) -> None:
        # Its consumer learns of the refusal and handles the messages again, so nothing may remember the offset.
        if refusal is not None and not write.keep:
            self._remove(key, write)
            return
        writes = self._writes[key]
        for older in writes[: writes.index(write)]:
            if older.failed:  # this one, durable or kept, takes its place
                self._remove(key, older)
        if refusal is None:
            self._remove(key, write)
            if not any(left.failed for left in self._writes.get(key, ())):
                self._unwritten.discard(key)
            return
        # Once for each position: with a full disk every write fails.
        if key not in self._unwritten:
            logger.warning("the position of %s stays in memory for now: %s", key, refusal.text)
        self._unwritten.add(key)
        write.failed = True
        # Of two that failed out of turn (one refused on the spot, an older one by the disk) the newest counts.
        for newer in writes[writes.index(write) + 1 :]:
            if newer.failed:
                self._remove(key, write)
                return

    def _remove(self, key: RegistrationKey, write: _Write) -> None:
        writes = self._writes[key]
        writes.remove(write)
        if not writes:
            del self._writes[key]
        self._recount(key)

    def _recount(self, key: RegistrationKey) -> None:
        """Count a key whose writes have changed, or of which one has become durable."""
        writes = self._writes.get(key)
        change = (writes[-1].offset is not None) - (self._durable(key) is not None) if writes else 0
        self._change += change - self._changes.pop(key, 0)
        if change:
            self._changes[key] = change
