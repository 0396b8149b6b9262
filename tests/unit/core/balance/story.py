"""A group told as a story: facts go in one after the other, with the time between them."""

from __future__ import annotations

from pytubemq.core.balance.facts import (
    Acked,
    Action,
    Event,
    Fact,
    HeartbeatReceived,
    PartitionsChanged,
    SendEvent,
)
from pytubemq.core.balance.transition import apply
from pytubemq.core.balance.view import GroupView, Timing
from pytubemq.model.ids import Partition

FOUR = frozenset(Partition(1, "demo", n) for n in range(4))
TIMING = Timing(client_timeout_s=30, lost_grace_s=3, event_timeout_s=30, resend_s=5, settle_s=15, retry_s=1)


class Story:
    """A group under test with its own clock."""

    def __init__(self, partitions: frozenset[Partition] = FOUR) -> None:
        self.view = GroupView(timing=TIMING)
        self.now_s = 100.0
        self(PartitionsChanged(partitions))

    def __call__(self, fact: Fact) -> tuple[Action, ...]:
        self.view, actions = apply(self.view, fact, now_s=self.now_s)
        return actions

    def ask(self, member: str) -> Event | None:
        told = [action.event for action in self(HeartbeatReceived(member)) if isinstance(action, SendEvent)]
        return told[0] if told else None

    def told(self, member: str) -> Event:
        event = self.ask(member)
        assert event is not None
        return event

    def serve(self, member: str) -> Event:
        """Tell the member something and have it done at once."""
        event = self.told(member)
        self(Acked(member, event.rebalance_id))
        return event


def parts(*ids: int) -> frozenset[Partition]:
    return frozenset(Partition(1, "demo", n) for n in ids)
