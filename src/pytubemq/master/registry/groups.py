"""Settings of consumer groups: their flow-control rules, their priority, how many Brokers one consumer may have.

The older settings and rules of groups are views of the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pytubemq.master.registry import outcome
from pytubemq.master.registry.change import Step, change
from pytubemq.master.registry.outcome import Outcome
from pytubemq.model.limits import MAX_GROUP_RECORDS
from pytubemq.model.records import DEFAULT_QRY_PRIORITY_ID, NO_RULES, GroupRecord

if TYPE_CHECKING:
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.registry.audit import Audit


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """The requested settings for a group; None = unchanged, or the default. `flow_ctrl_info` are checked rules."""

    group: str
    by: Audit
    res_check_enable: bool | None = None
    alwd_broker_client_rate: int | None = None
    qry_priority_id: int | None = None
    flow_ctrl_enable: bool | None = None
    flow_ctrl_info: str | None = None

    def over(self, record: GroupRecord) -> GroupRecord:
        """Return a record with these changes; its stamp stays."""
        values: dict[str, Any] = {
            "res_check_enable": self.res_check_enable,
            "alwd_broker_client_rate": self.alwd_broker_client_rate,
            "qry_priority_id": self.qry_priority_id,
            "flow_ctrl_enable": self.flow_ctrl_enable,
            "flow_ctrl_info": self.flow_ctrl_info,
        }
        return replace(record, **{name: value for name, value in values.items() if value is not None})


_Decide = Callable[[GroupChange, GroupRecord | None], Step[GroupRecord]]


class GroupRegistry:
    """Changes of the records of groups. An outcome's key is (group,)."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def add(self, changes: Sequence[GroupChange]) -> list[Outcome]:
        """Add records: 402 where there is one."""
        return await self._change(changes, self._add)

    async def update(self, changes: Sequence[GroupChange]) -> list[Outcome]:
        """Change records: 401 where there is none, 403 where nothing would change."""
        return await self._change(changes, _update)

    async def put(self, changes: Sequence[GroupChange]) -> list[Outcome]:
        """Create or change records; 403 where nothing would change.

        A new record has the built-in priority and not the cluster's, as with the original's older methods.
        """
        return await self._change(changes, self._put)

    async def remove_rules(self, changes: Sequence[GroupChange]) -> list[Outcome]:
        """Switch flow control off where it is on, and reset rules and priority; succeed where it is off already."""
        return await self._change(changes, _remove_rules)

    async def delete(self, changes: Sequence[GroupChange]) -> list[Outcome]:
        """Delete records: 405 while the group has a record of consuming; succeed where there are none."""

        @cache
        def busy() -> frozenset[str]:  # evaluated when nobody else can change a record
            return frozenset(group for group, _ in self._catalogue.consumes)

        def decide(wanted: GroupChange, known: GroupRecord | None) -> Step[GroupRecord]:
            if wanted.group in busy():
                text = f"group {wanted.group} has records of consuming: delete those first"
                return Step(Outcome((wanted.group,), outcome.NEED_MISSING, text))
            return Step(Outcome((wanted.group,)), delete=known)

        return await self._change(changes, decide)

    def find(self, groups: Iterable[str] = ()) -> list[GroupRecord]:
        """Return the records of these groups, none named = all; by name."""
        wanted = frozenset(groups)
        return [record for name, record in sorted(self._catalogue.groups.items()) if not wanted or name in wanted]

    # --- inside -------------------------------------------------------------------------------------------------

    async def _change(self, changes: Sequence[GroupChange], decide: _Decide) -> list[Outcome]:
        return await change(
            self._catalogue,
            self._catalogue.groups,
            changes,
            key=lambda one: one.group,
            decide=decide,
            most=MAX_GROUP_RECORDS,
        )

    def _made(self, wanted: GroupChange) -> GroupRecord:
        priority = self._catalogue.cluster.qry_priority_id
        return wanted.over(GroupRecord(wanted.group, qry_priority_id=priority, stamp=wanted.by.made()))

    def _add(self, wanted: GroupChange, known: GroupRecord | None) -> Step[GroupRecord]:
        if known is not None:
            text = f"group {wanted.group} has a record already: change that one"
            return Step(Outcome((wanted.group,), outcome.EXISTS, text))
        return Step(Outcome((wanted.group,)), put=self._made(wanted))

    def _put(self, wanted: GroupChange, known: GroupRecord | None) -> Step[GroupRecord]:
        if known is not None:
            return _update(wanted, known)
        made = wanted.over(GroupRecord(wanted.group, stamp=wanted.by.made()))
        return Step(Outcome((wanted.group,)), put=made)


def _update(wanted: GroupChange, known: GroupRecord | None) -> Step[GroupRecord]:
    if known is None:
        return Step(Outcome((wanted.group,), outcome.NOT_FOUND, f"group {wanted.group} has no record: add one"))
    step = _flip(wanted, known)
    if step.put is None:
        text = "nothing would change: it has these values already"
        return Step(Outcome((wanted.group,), outcome.UNCHANGED, text))
    return step


def _remove_rules(wanted: GroupChange, known: GroupRecord | None) -> Step[GroupRecord]:
    if known is None or not known.flow_ctrl_enable:
        return Step(Outcome((wanted.group,)))
    none = replace(wanted, flow_ctrl_enable=False, flow_ctrl_info=NO_RULES, qry_priority_id=DEFAULT_QRY_PRIORITY_ID)
    return _flip(none, known)


def _flip(wanted: GroupChange, known: GroupRecord | None) -> Step[GroupRecord]:
    if known is None or wanted.over(known) == known:
        return Step(Outcome((wanted.group,)))
    changed = wanted.over(known)
    return Step(Outcome((wanted.group,)), put=replace(changed, stamp=wanted.by.changed(known.stamp)))
