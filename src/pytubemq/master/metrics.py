"""The Master's figures: how each is read off what the Master keeps anyway.

The invariant: reading changes nothing and asks no Broker; what only Brokers know, such as lags, they tell themselves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.observe.metrics import Source, Values, counter, gauge
from pytubemq.wire.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.master.views import BrokerView, Health
    from pytubemq.net.server import ServerStats
    from pytubemq.observe.metrics import Reading

Calls = Counter[int]
"""Requests by method since the start."""


@dataclass(frozen=True, slots=True)
class MasterFacts:
    """What all figures of one reading are read from. Made on the event loop, read on any thread."""

    health: Health
    brokers: tuple[BrokerView, ...]
    group_states: Mapping[str, int]
    """Groups with members by their state."""
    server: ServerStats
    calls: Calls
    held_heartbeats: int
    rebalances: int

    def readings(self) -> Iterable[Reading]:
        """All figures of a Master."""
        return [source.reading(self) for source in MASTER_METRICS]


def _broker_states(facts: MasterFacts) -> Values:
    states = Counter(broker.state for broker in facts.brokers)
    return {(state,): states[state] for state in BROKER_STATES}


def _groups(facts: MasterFacts) -> Values:
    return {(state,): facts.group_states.get(state, 0) for state in GROUP_STATES}


def _calls(facts: MasterFacts) -> Values:
    return {(Method(method).name.lower(),): count for method, count in sorted(facts.calls.items())}


BROKER_STATES: Final = ("online", "starting", "away", "offline", "draft")
GROUP_STATES: Final = ("stable", "balancing")

MASTER_METRICS: tuple[Source[MasterFacts], ...] = (
    gauge("master_healthy", "1 while the cluster's health names nothing", lambda f: f.health.status == "healthy"),
    gauge("master_health_reasons", "What the cluster's health names", lambda f: len(f.health.reasons)),
    gauge("master_insecure", "1 where the settings have insecure = true", lambda f: f.health.insecure),
    gauge(
        "master_brokers",
        "Brokers by state: online, starting, away, or offline or draft as an operator set it",
        _broker_states,
        ("state",),
    ),
    gauge("master_topics", "Topics", lambda f: f.health.topics),
    gauge("master_groups", "Groups with members by state: stable or balancing", _groups, ("state",)),
    gauge("master_consumers", "Consumers registered", lambda f: f.health.consumers),
    gauge("master_producers", "Producers registered", lambda f: f.health.producers),
    counter(
        "master_rebalances_total",
        "Times that a consumer was told to take or give up partitions",
        lambda f: f.rebalances,
    ),
    gauge("master_heartbeats_held", "Heartbeats that wait for news", lambda f: f.held_heartbeats),
    counter(
        "master_requests_total",
        "Requests over the protocol by method: registrations, heartbeats and farewells",
        _calls,
        ("method",),
    ),
    gauge("master_connections", "Connections open", lambda f: f.server.connections),
    counter("master_connections_accepted_total", "Connections accepted", lambda f: f.server.accepted),
    counter("master_connections_refused_total", "Connections refused, too many were open", lambda f: f.server.refused),
    counter("master_connection_faults_total", "Connections closed for what came over them", lambda f: f.server.faults),
    counter(
        "master_slow_readers_total",
        "Connections closed because their peers did not read their responses",
        lambda f: f.server.slow_readers,
    ),
    counter(
        "master_connections_made_room_total",
        "Connections closed to make room for a new one, because they were unused or silent for long",
        lambda f: f.server.made_room,
    ),
    gauge("master_unsent_bytes", "Bytes of responses that peers have not taken", lambda f: f.server.unsent_bytes),
    counter("master_calls_failed_total", "Requests answered with an exception", lambda f: f.server.failed),
    counter("master_calls_late_total", "Answers dropped, their callers had given up", lambda f: f.server.late),
)
"""Every figure of a Master, in the order it is told."""
