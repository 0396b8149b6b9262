"""The rooms of one Master, made and joined to each other.

The invariant: they all give out the same tokens and count their clients together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pytubemq.master.access.access import Access, make_access
from pytubemq.master.brokers.brokers import Brokers
from pytubemq.master.client_admission import ClientAdmission
from pytubemq.master.groups.authorization import Authorization
from pytubemq.master.groups.client_balance import ClientBalance
from pytubemq.master.groups.consumers import Consumers
from pytubemq.master.groups.flow_control import FlowResponses
from pytubemq.master.groups.groups import Groups
from pytubemq.master.producers import Producers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.settings import MasterSettings
    from pytubemq.net.clock import Clock


@dataclass(frozen=True, slots=True)
class Components:
    """The parts of a Master that serve its clients and Brokers."""

    brokers: Brokers
    groups: Groups
    producers: Producers
    consumers: Consumers
    client_balance: ClientBalance
    flow: FlowResponses
    admission: ClientAdmission
    access: Access


def make_components(
    catalogue: Catalogue,
    settings: MasterSettings,
    clock: Clock,
    *,
    topics_changed: Callable[[Collection[str]], None],
    poke: Callable[[], None],
) -> Components:
    """Create the rooms over one catalogue.

    Args:
        catalogue: the records.
        settings: of the Master.
        clock: of all of them.
        topics_changed: called with topics that may have become available or unavailable.
        poke: called when a time-out may be due sooner than it was.
    """
    access = make_access(catalogue, settings, clock)
    brokers = Brokers(catalogue, settings, clock, access.tokens, access.checks, topics_changed)
    admission = ClientAdmission(
        max_clients=settings.max_clients, max_bytes=settings.max_client_state_bytes, now_s=clock.now_s
    )
    groups = Groups(catalogue, brokers, settings, clock, poke, admission)
    brokers.on_registered = groups.broker_registered
    producers = Producers(catalogue, brokers, settings, clock, access.tokens, admission)
    producers.sees_topic = access.guard.sees_topic

    def make_room(key: Hashable) -> None:
        kind, *names = cast("tuple[str, ...]", key)
        (groups.make_room if kind == "consumer" else producers.make_room)(*names)

    admission.on_dropped = make_room
    admission.on_left = lambda key: access.sessions.forget(_client(key))
    access.tokens.shares_visit_token = lambda: not all(run.knows_access for run in brokers.runs.values())
    brokers.on_released = lambda broker_id: access.sessions.forget(("broker", str(broker_id)))
    authorization = Authorization(catalogue)
    flow = FlowResponses(catalogue)
    wait_s = settings.heartbeat_wait_s
    consumers = Consumers(catalogue, groups, clock, access.tokens, authorization, flow, longest_wait_s=wait_s)
    client_balance = ClientBalance(catalogue, groups, clock, access.tokens, authorization, flow, longest_wait_s=wait_s)
    return Components(brokers, groups, producers, consumers, client_balance, flow, admission, access)


def _client(key: Hashable) -> tuple[str, str]:
    """Return a registered client as access control names it: by kind and client id, without its group."""
    kind, *names = cast("tuple[str, ...]", key)
    return kind, names[-1]
