"""Reasons why a group, or some of its members, gets no messages: one sentence each.

The invariant: every reason comes from the state on which the Master's own decisions rest; a group that gets all
messages has no reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.core.balance.consistency import GroupKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.groups.group import Group
    from pytubemq.master.views import ClosedTopic

ABSENT = "no consumer of it is registered"
NOTHING_CONFIRMED = "and it has confirmed nothing"
CONFIRMS_UNKNOWN = "and not every Broker could be asked whether it has confirmed anything"


def why_nothing(
    group: Group | None, brokers: Brokers, topics: Iterable[str], closed: Sequence[ClosedTopic], *, confirmed: str
) -> str:
    """Return the reasons, separated by semicolons; blank if there is none.

    `confirmed` ends the sentence with what is known of its positions: NOTHING_CONFIRMED, CONFIRMS_UNKNOWN or blank.
    """
    reasons = [f"{one.topic} is closed for it: {one.why}" for one in closed]
    if group is None:
        return "; ".join([f"{ABSENT}, {confirmed}" if confirmed else ABSENT, *reasons])
    shut = {one.topic for one in closed}
    return "; ".join([*reasons, *_of_members(group, brokers, [topic for topic in topics if topic not in shut])])


def _of_members(group: Group, brokers: Brokers, topics: Sequence[str]) -> Iterable[str]:
    """Yield what keeps members from partitions of topics that are open to the group."""
    if group.needs:
        yield f"{len(group.members)} of {group.needs} consumers have joined; it gets nothing before all have"
        return
    available, _ = brokers.topics.consumable(topics)
    away = brokers.topics.away(topics)
    if away:
        yield f"broker {', '.join(map(str, away))} is away, and its partitions wait for it"
    idle = [name for name in sorted(group.members) if not group.holds(name)]
    out = [name for name in idle if group.view.members[name].out_until_s is not None]
    if out:
        yield f"an administrator has taken the partitions of {', '.join(out)} for a while"
    idle = [name for name in idle if name not in out]
    if not idle or not available:
        return
    if len(group.members) > len(available):
        yield f"it has {len(group.members)} members and {len(available)} partitions: {len(idle)} have none"
    elif group.kind is GroupKind.CLIENT_BALANCE:
        yield f"{len(idle)} of its members have reported no partition that they read"
    elif not group.view.balanced:
        yield "partitions are being assigned"
