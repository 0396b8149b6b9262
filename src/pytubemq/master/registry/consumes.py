"""Rules about which groups may consume which topics, and the older lists that are views of them.

The rules are the original's: a record is for a topic that is on some Broker; a new one brings along the records of
its topic and its group where they are missing. The lists of allowed and of denied groups are the same records with
consuming on or off; removing a group from a list flips it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pytubemq.errors import Code, NotFoundError
from pytubemq.master.registry import outcome
from pytubemq.master.registry.change import Step, change
from pytubemq.master.registry.outcome import Outcome
from pytubemq.model.limits import MAX_CONSUME_RECORDS
from pytubemq.model.records import ConsumeRecord, GroupRecord, Stamp, TopicRecord

if TYPE_CHECKING:
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.registry.audit import Audit
    from pytubemq.model.records import Record

DENIED = "on the list of denied groups"
NOT_ALLOWED = "taken off the list of allowed groups"
SHOWN_TOPICS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeChange:
    """The requested settings for a group and a topic; None = unchanged, or the default."""

    group: str
    topic: str
    by: Audit
    consume_enable: bool | None = None
    reason: str | None = None
    filter_enable: bool | None = None
    filter_conds: frozenset[str] | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.topic

    def made(self) -> ConsumeRecord:
        """Return the record that this creates where there is none."""
        return self.over(ConsumeRecord(self.group, self.topic, stamp=self.by.made()))

    def over(self, record: ConsumeRecord) -> ConsumeRecord:
        """Return a record with these changes; its stamp stays."""
        values: dict[str, Any] = {
            "consume_enable": self.consume_enable,
            "disable_csm_rsn": self.reason,
            "filter_enable": self.filter_enable,
            "filter_conds": self.filter_conds,
        }
        return replace(record, **{name: value for name, value in values.items() if value is not None})


_Decide = Callable[[ConsumeChange, ConsumeRecord | None], Step[ConsumeRecord]]


class ConsumeRegistry:
    """Changes of the records of consuming. An outcome's key is (group, topic)."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def add(self, changes: Sequence[ConsumeChange]) -> list[Outcome]:
        """Add records: 402 where there is one. Raises NotFoundError: a topic is on no Broker."""
        return await self._new(changes, _add)

    async def update(self, changes: Sequence[ConsumeChange]) -> list[Outcome]:
        """Change records: 401 where there is none, 403 where nothing would change."""
        return await self._change(changes, _update)

    async def put(self, changes: Sequence[ConsumeChange]) -> list[Outcome]:
        """Add or change records. Raises NotFoundError: a topic is on no Broker."""
        return await self._new(changes, _put)

    async def set(self, changes: Sequence[ConsumeChange]) -> list[Outcome]:
        """Add or change records as `put` does, but with 403 where nothing would change."""
        return await self._new(changes, _set)

    async def flip(self, changes: Sequence[ConsumeChange]) -> list[Outcome]:
        """Change records where there are any; succeed where there are none."""
        return await self._change(changes, _flip)

    async def delete(self, changes: Sequence[ConsumeChange]) -> list[Outcome]:
        """Delete records; succeed where there are none."""
        return await self._change(changes, _delete)

    def find(self, groups: Iterable[str] = (), topics: Iterable[str] = ()) -> list[ConsumeRecord]:
        """Return the records of these groups and topics, none named = all; by group and topic."""
        wanted_groups, wanted_topics = frozenset(groups), frozenset(topics)
        found: Iterable[ConsumeRecord]
        if wanted_topics:
            found = chain.from_iterable(self._catalogue.consumers(topic).values() for topic in wanted_topics)
        else:
            found = self._catalogue.consumes.values()
        kept = (record for record in found if not wanted_groups or record.group in wanted_groups)
        return sorted(kept, key=attrgetter("group", "topic"))

    # --- inside -------------------------------------------------------------------------------------------------

    async def _new(self, changes: Sequence[ConsumeChange], decide: _Decide) -> list[Outcome]:
        missing = sorted({change.topic for change in changes if not self._catalogue.deployed(change.topic)})
        if missing:
            more = f" and {len(missing) - SHOWN_TOPICS} more" if len(missing) > SHOWN_TOPICS else ""
            raise NotFoundError(
                f"no Broker has topic {', '.join(missing[:SHOWN_TOPICS])}{more}",
                hint="deploy it first, or leave it out",
                code=Code.BAD_REQUEST,
            )
        return await self._change(changes, decide)

    async def _change(self, changes: Sequence[ConsumeChange], decide: _Decide) -> list[Outcome]:
        return await change(
            self._catalogue,
            self._catalogue.consumes,
            changes,
            key=lambda one: one.key,
            decide=decide,
            most=MAX_CONSUME_RECORDS,
            along=self._missing,
        )

    def _missing(self, records: Iterable[ConsumeRecord]) -> list[Record]:
        """Return the records of topics and groups that these need and that do not exist."""
        found: dict[object, Record] = {}
        for record in records:
            stamp = Stamp(
                record.stamp.create_user, record.stamp.modify_ms, record.stamp.modify_user, record.stamp.modify_ms
            )
            if record.topic not in self._catalogue.topics:
                size = self._catalogue.cluster.max_message_bytes
                found["topic", record.topic] = TopicRecord(record.topic, max_message_bytes=size, stamp=stamp)
            if record.group not in self._catalogue.groups:
                priority = self._catalogue.cluster.qry_priority_id
                found["group", record.group] = GroupRecord(record.group, qry_priority_id=priority, stamp=stamp)
        return list(found.values())


def _add(wanted: ConsumeChange, known: ConsumeRecord | None) -> Step[ConsumeRecord]:
    if known is not None:
        text = f"group {wanted.group} has a record for {wanted.topic} already: change that one"
        return Step(Outcome(wanted.key, outcome.EXISTS, text))
    return Step(Outcome(wanted.key), put=wanted.made())


def _update(wanted: ConsumeChange, known: ConsumeRecord | None) -> Step[ConsumeRecord]:
    if known is None:
        text = f"group {wanted.group} has no record for {wanted.topic}: add one"
        return Step(Outcome(wanted.key, outcome.NOT_FOUND, text))
    step = _flip(wanted, known)
    if step.put is None:
        return Step(Outcome(wanted.key, outcome.UNCHANGED, "nothing would change: it has these values already"))
    return step


def _put(wanted: ConsumeChange, known: ConsumeRecord | None) -> Step[ConsumeRecord]:
    return Step(Outcome(wanted.key), put=wanted.made()) if known is None else _flip(wanted, known)


def _set(wanted: ConsumeChange, known: ConsumeRecord | None) -> Step[ConsumeRecord]:
    return Step(Outcome(wanted.key), put=wanted.made()) if known is None else _update(wanted, known)


def _flip(wanted: ConsumeChange, known: ConsumeRecord | None) -> Step[ConsumeRecord]:
    if known is None or wanted.over(known) == known:
        return Step(Outcome(wanted.key))
    changed = wanted.over(known)
    return Step(Outcome(wanted.key), put=replace(changed, stamp=wanted.by.changed(known.stamp)))


def _delete(wanted: ConsumeChange, known: ConsumeRecord | None) -> Step[ConsumeRecord]:
    return Step(Outcome(wanted.key), delete=known)
