"""The cluster's metadata as a declaration, for administrators: exported, compared, applied.

The invariants: a declaration is applied as one change of the records, all of it or nothing, and as its plan says;
nobody else changes a record between the making of the plan and its storage.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final

from pytubemq.errors import AlreadyExistsError, Code, UnavailableError
from pytubemq.master.declaration.differences import fingerprint
from pytubemq.master.declaration.exporting import declare
from pytubemq.master.declaration.merging import MergeOptions
from pytubemq.master.declaration.metadata_views import MetadataDiff
from pytubemq.master.declaration.plan import make_plan
from pytubemq.master.declaration.records import Records
from pytubemq.master.registry.audit import Audit, author_of
from pytubemq.master.registry.brokers import history_place
from pytubemq.master.registry.topics import SYSTEM_USER, new_topic
from pytubemq.model.records import BrokerRecord, DeployRecord, PermissionRecord, UserRecord
from pytubemq.model.topic import HISTORY_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.declaration.declaration import Declaration
    from pytubemq.master.declaration.plan import Plan
    from pytubemq.master.registry.broker_waits import BrokerWaits
    from pytubemq.model.records import Record
    from pytubemq.net.clock import Clock

logger = logging.getLogger(__name__)

_EPOCH_BYTES: Final = 6
"""Random bytes of a new user's first epoch, which leave it room to grow."""
_UNCHANGED: Final = MergeOptions()


class DeclaredMetadata:
    """The declared metadata of one Master."""

    def __init__(
        self,
        catalogue: Catalogue,
        waits: BrokerWaits,
        clock: Clock,
        brokers_by_user: Callable[[], Mapping[str, Collection[int]]],
        held_topics: Callable[[], Collection[str]],
    ) -> None:
        """`brokers_by_user` returns the registered Brokers; `held_topics` the topics that only Brokers know."""
        self._catalogue = catalogue
        self._waits = waits
        self._clock = clock
        self._brokers_by_user = brokers_by_user
        self._held_topics = held_topics

    async def export(self) -> Declaration:
        """Return the declaration of all records."""
        return await asyncio.to_thread(declare, Records.of(self._catalogue))

    async def diff(self, declaration: Declaration, options: MergeOptions = _UNCHANGED) -> MetadataDiff:
        """Return what applying a declaration would change.

        Raises:
            BadRequestError: something in the declaration is not allowed.
            RefusedError: a registered Broker, or everyone, would be locked out.
        """
        return _view(await self._plan(declaration, options))

    async def apply(
        self, declaration: Declaration, options: MergeOptions = _UNCHANGED, *, expect: str | None = None
    ) -> MetadataDiff:
        """Change the records as declared, in one step, and wait until the Brokers online have taken it up.

        `expect` is the fingerprint of the changes that somebody has agreed to.

        Raises:
            AlreadyExistsError: other changes would be made than expected; nothing has changed.
            BadRequestError: something in the declaration is not allowed; nothing has changed.
            RefusedError: a registered Broker, or everyone, would be locked out; nothing has changed.
            StorageError: the store cannot write; nothing has changed.
        """
        async with self._catalogue.lock:
            plan = await self._plan(declaration, options)
            if expect is not None and expect != fingerprint(plan.changes):
                raise AlreadyExistsError(
                    "the metadata has changed since the preview, so other changes would be made; nothing was changed",
                    hint="preview the changes again",
                    code=Code.BAD_REQUEST,
                )
            self._check_unknown(plan)
            tokens = self._tokens(plan.deletes)
            await self._catalogue.apply([*plan.puts, *self._history_records(plan.puts)], [*plan.deletes, *tokens])
        if not plan.changes:
            return _view(plan, applied=True)
        logger.info("metadata applied: %d entries changed", len(plan.changes))
        return _view(plan, applied=True, pending=await self._pending(plan))

    # --- inside -------------------------------------------------------------------------------------------------

    async def _plan(self, declaration: Declaration, options: MergeOptions) -> Plan:
        """Return the plan for the records as they are; made on a thread, since a cluster may have many."""
        records = Records.of(self._catalogue)
        by = author_of(None, self._clock.wall_ms())
        return await asyncio.to_thread(
            make_plan,
            records,
            declaration,
            options,
            by=by,
            brokers_by_user=self._brokers_by_user(),
            new_epoch=lambda: int.from_bytes(os.urandom(_EPOCH_BYTES), "big") + 1,
        )

    def _check_unknown(self, plan: Plan) -> None:
        """Refuse a new topic if a Broker holds messages of one of that name, which this Master does not know."""
        held = set(self._held_topics())
        for record in plan.puts:
            if isinstance(record, DeployRecord) and record.topic in held - {*self._catalogue.topics}:
                raise UnavailableError(
                    f"nothing was changed: a Broker holds messages of topic {record.topic}, which this Master does not "
                    "know",
                    hint="take them over with `pytubemq cluster adopt`, then apply again",
                    code=Code.SERVICE_UNAVAILABLE,
                )

    def _history_records(self, puts: Collection[Record]) -> list[Record]:
        """Return the records of the original's own topic, which is on every Broker that an operator adds."""
        by = author_of(None, self._clock.wall_ms())
        new = [one for one in puts if isinstance(one, BrokerRecord) and one.broker_id not in self._catalogue.brokers]
        found: list[Record] = [history_place(one, by) for one in new]
        if found and HISTORY_TOPIC not in self._catalogue.topics:
            found.append(new_topic(HISTORY_TOPIC, self._catalogue, Audit(SYSTEM_USER, by.ms)))
        return found

    def _tokens(self, deletes: Collection[Record]) -> list[Record]:
        """Return the bearer tokens of users that are removed."""
        gone = {record.user for record in deletes if isinstance(record, UserRecord)}
        return [token for token in self._catalogue.user_tokens.values() if token.user in gone]

    async def _pending(self, plan: Plan) -> list[str]:
        """Wait for the Brokers that are online; return what they have not taken up."""
        found = []
        topics = {record.topic for record in plan.puts if isinstance(record, DeployRecord)} - {*plan.removed}
        online = [broker_id for broker_id in self._catalogue.brokers if self._waits.is_online(broker_id)]

        def left() -> list[int]:
            late = {broker_id for topic in topics for broker_id in self._waits.late(topic, online)}
            return sorted(late.union(self._waits.behind(online)))

        try:
            await self._waits.until_ready("the metadata", "is changed", online, left)
        except UnavailableError as error:
            found.append(error.message)
        if any(isinstance(one, UserRecord | PermissionRecord) for one in [*plan.puts, *plan.deletes]):
            try:
                await self._waits.until_access_known()
            except UnavailableError as error:
                found.append(error.message)
        for topic in plan.removed:
            await self._waits.until_removed(topic)
            if on := sorted(self._catalogue.deployed(topic)):
                found.append(f"topic {topic} is not removed from broker {', '.join(map(str, on))} yet")
        return found


def _view(plan: Plan, *, applied: bool = False, pending: list[str] | None = None) -> MetadataDiff:
    return MetadataDiff(
        changes=plan.changes,
        fingerprint=fingerprint(plan.changes),
        notes=plan.notes,
        applied=applied,
        pending=pending or [],
    )
