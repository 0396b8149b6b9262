"""The entries in a group's story about its members and the partitions that it can consume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.master.stories.stories import names_of

if TYPE_CHECKING:
    from pytubemq.master.groups.group import Group
    from pytubemq.master.stories.stories import Stories
    from pytubemq.model.ids import Partition


class GroupStory:
    """Records what happens to groups; `Group.cause` has the reason of the next events."""

    def __init__(self, stories: Stories) -> None:
        self._stories = stories

    def record_available(self, group: Group, before: frozenset[Partition]) -> None:
        """Record which partitions there are to consume, where that has changed."""
        now = group.view.available
        if now == before:
            return
        parts = [(now - before, "can be consumed now"), (before - now, "can no longer be consumed")]
        if text := "; ".join(f"{names_of(some)} {what}" for some, what in parts if some):
            group.cause = "other partitions can be consumed" if before else group.cause
            why = "Brokers, topics, or the rules for the group changed" if before else ""
            self._stories.record_group(group.name, "partitions", text, why)

    def record_left(self, group: Group, member: str, reason: str) -> None:
        """Record that a member is gone."""
        group.cause = f"{member} left: {reason}"
        held = names_of(group.holds(member)) if member in group.view.members else "its partitions"
        self._stories.record_group(group.name, "left", f"{member}, which had {held}", reason)
