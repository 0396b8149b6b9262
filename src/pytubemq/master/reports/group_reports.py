"""The consumer groups as views: members, position and lag of each.

The invariant: a group is reported as absent only if every Broker that may know of it was asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import Code, NotFoundError, UntoldError
from pytubemq.master.brokers.slices import slices
from pytubemq.master.groups.stall_reasons import ABSENT, CONFIRMS_UNKNOWN, NOTHING_CONFIRMED, why_nothing
from pytubemq.master.reports.shared_build import SharedBuild
from pytubemq.master.views import ClosedTopic, GroupDetail, GroupView, LagView, MemberView, iso
from pytubemq.model.offset import messages_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.master.broker_inspector import BrokerInspector, InspectedOffsets
    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.groups.group import Group
    from pytubemq.master.groups.groups import Groups
    from pytubemq.master.reports.layout import Layout
    from pytubemq.model.ids import Partition

_MOST_SHOWN: Final = 8
"""Brokers in one error; the others are counted."""


class GroupReports:
    """The views of groups, from the state of the other rooms; changes nothing."""

    def __init__(self, layout: Layout, groups: Groups, inspector: BrokerInspector) -> None:
        self._layout = layout
        self._groups = groups
        self._inspector = inspector
        self._all_groups = SharedBuild(self._list_groups)

    async def groups(self) -> list[GroupView]:
        """Return all groups, also those without members that have confirmed something.

        Raises:
            UntoldError: none is known, and a Broker that may know one cannot be asked.
        """
        return await self._all_groups.get()

    async def _list_groups(self) -> list[GroupView]:
        online = self._layout.online()
        in_parts = self._layout.partitions_on
        offsets = await self._inspector.offsets(online, all_groups=True, in_parts=in_parts)
        offsets.unreachable += self._layout.away()
        names = sorted({*self._groups.groups, *offsets.confirmed})
        if not names and offsets.unreachable:
            raise _undetermined("which groups exist", offsets)
        return [self._group(name, offsets, await self._lag(name, offsets)) for name in names]

    async def group(self, name: str, *, topic: str | None = None) -> GroupDetail:
        """Return one group; with a topic only that topic's rows.

        Raises:
            NotFoundError: it does not exist, and nothing keeps it out of a topic.
            UntoldError: a Broker that may know it cannot be asked, and nobody else knows it.
        """
        online, in_parts = self._layout.online(), self._layout.partitions_on
        offsets = await self._inspector.offsets(online, groups=[name], in_parts=in_parts)
        offsets.unreachable += self._layout.away()
        group = self._groups.groups.get(name)
        has_confirmed = bool(offsets.confirmed.get(name))
        lag = await self._lag(name, offsets, topic)
        view = self._group(name, offsets, lag)
        forbidden = self._recorded(name)
        topics = sorted({*view.topics, *forbidden}) if topic is None else [topic]
        closed = _closed_topics(self._layout.catalogue, self._layout.brokers, name, topics)
        if group is None and not has_confirmed and not forbidden and not closed:
            if offsets.unreachable:
                raise _undetermined(f"whether group {name} exists", offsets)
            raise _absent(name, topic)
        # A topic that its members do not read is no reason why they get nothing.
        wanted = topics if group is None or topic is not None else view.topics
        fields = {field: getattr(view, field) for field in GroupView.__struct_fields__}
        return GroupDetail(
            **fields,
            why=why_nothing(
                group,
                self._layout.brokers,
                wanted,
                [one for one in closed if one.topic in wanted],
                confirmed="" if has_confirmed else CONFIRMS_UNKNOWN if offsets.unreachable else NOTHING_CONFIRMED,
            ),
            closed=closed,
            member_list=_members(group),
            lag=lag,
        )

    def _recorded(self, name: str) -> list[str]:
        """Return the topics that a record forbids to a group, whether it reads them or not."""
        consumes = self._layout.catalogue.consumes.values()
        return sorted(record.topic for record in consumes if record.group == name and not record.consume_enable)

    def _group(self, name: str, offsets: InspectedOffsets, lag: list[LagView]) -> GroupView:
        group = self._groups.groups.get(name)
        known = [line.lag_messages for line in lag if line.lag_messages is not None]
        positions = offsets.confirmed.get(name, {})
        topics = group.terms.topics if group is not None else {partition.topic for partition in positions}
        if group is None:
            state = "empty" if offsets.confirmed.get(name) or offsets.unreachable else "absent"
        else:
            state = "stable" if group.view.balanced else "balancing"
        return GroupView(
            name=name,
            state=state,
            kind="" if group is None else group.kind.text,
            topics=sorted(topics),
            members=0 if group is None else len(group.members),
            lag_messages=sum(known) if len(known) == len(lag) else None,
            unreachable=offsets.unreachable,
            unsupported=offsets.unsupported,
        )

    async def _lag(self, name: str, offsets: InspectedOffsets, topic: str | None = None) -> list[LagView]:
        """Return the lag by partition: of its topics and wherever else it has confirmed something; or of `topic`.

        It is made in slices between which the loop runs.
        """
        group = self._groups.groups.get(name)
        confirmed = offsets.confirmed.get(name, {})
        partitions: dict[str, set[Partition]] = {}
        for partition in confirmed:
            partitions.setdefault(partition.topic, set()).add(partition)
        read = group.terms.topics if group is not None else frozenset[str]()
        lines: list[LagView] = []
        for each in sorted({*partitions, *read}) if topic is None else [topic]:
            found = partitions.get(each, set()).union(self._layout.partitions(each) if each in read else ())
            async for some in slices(sorted(found, key=lambda one: (one.broker_id, one.partition_id))):
                owners = group.view.owners if group is not None else {}
                lines += [_lag_of(partition, owners, confirmed, offsets) for partition in some]
        return lines


def _lag_of(
    partition: Partition,
    owners: Mapping[Partition, str],
    confirmed: Mapping[Partition, int],
    offsets: InspectedOffsets,
) -> LagView:
    ends = offsets.ends.get(partition)
    position = confirmed.get(partition)
    # Where nothing is confirmed yet, everything that is kept is still to be read.
    start = position if position is not None else (ends[0] if ends is not None else 0)
    return LagView(
        partition=str(partition),
        topic=partition.topic,
        holder=owners.get(partition),
        confirmed=position,
        max_offset=None if ends is None else ends[1],
        lag_messages=None if ends is None else messages_between(max(start, ends[0]), ends[1]),
    )


def _members(group: Group | None) -> list[MemberView]:
    if group is None:
        return []
    found = []
    for name, info in group.members.items():
        member = group.view.members[name]
        found.append(
            MemberView(
                id=name,
                host=info.host,
                peer=info.peer,
                joined=iso(info.joined_ms),
                partitions=[str(partition) for partition in sorted(member.holds)],
                pending=None if member.event is None else member.event.op.name,
            )
        )
    return found


def _absent(name: str, topic: str | None) -> NotFoundError:
    allowed = "no record restricts it" if topic is None else f"no record keeps it from consuming {topic}"
    return NotFoundError(
        f"no group {name}: {ABSENT}, {NOTHING_CONFIRMED}, and {allowed}",
        hint="`pytubemq group list` names the groups",
        code=Code.NOT_FOUND,
    )


def _undetermined(what: str, offsets: InspectedOffsets) -> UntoldError:
    """Return the error for a question that only unreachable Brokers could decide."""
    shown = "; ".join(offsets.unreachable[:_MOST_SHOWN])
    more = len(offsets.unreachable) - _MOST_SHOWN
    return UntoldError(
        f"{what} cannot be determined: {shown}" + (f"; and {more} more" if more > 0 else ""),
        hint="Brokers keep what groups have confirmed: start them, or wait until they have registered",
        code=Code.SERVICE_UNAVAILABLE,
    )


def _closed_topics(catalogue: Catalogue, brokers: Brokers, group: str, topics: Iterable[str]) -> list[ClosedTopic]:
    """Return the topics among `topics` that `group` gets nothing of, in their order, each with the reason.

    Every reason is read from the records that the Master itself goes by.
    """
    return [
        ClosedTopic(topic=topic, why=why)
        for topic in topics
        if (why := _why(catalogue, brokers, group, topic)) is not None
    ]


def _why(catalogue: Catalogue, brokers: Brokers, group: str, topic: str) -> str | None:
    rule = catalogue.consumers(topic).get(group)
    if rule is not None and not rule.consume_enable:
        reason = f": {rule.disable_csm_rsn}" if rule.disable_csm_rsn else ""
        return f"an administrator has switched off consuming it for this group{reason}"
    record = catalogue.topics.get(topic)
    if rule is None and record is not None and record.enable_auth_control:
        return "only permitted groups may consume it, and this one is not: members that register now are refused"
    if not catalogue.deployed(topic):
        return "it is on no Broker any more"
    if not any(brokers.topics.consumable((topic,))) and not brokers.topics.away((topic,)):
        return "no Broker that has it lets consumers read now"
    return None
