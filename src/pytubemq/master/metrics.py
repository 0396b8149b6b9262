"""The Master's metrics, each read from state that the Master keeps anyway.

The invariant: reading changes nothing and asks no Broker; what only Brokers know, such as lags, they export themselves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.net.server.server_metrics import server_metrics
from pytubemq.observe.metrics import Source, Values, counter, gauge
from pytubemq.security.refusals import Refusals
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.master.views import BrokerView, Health
    from pytubemq.net.server.stats import ServerStats
    from pytubemq.observe.metrics import Reading

Calls = Counter[int]
"""Requests by method since the start."""


@dataclass(frozen=True, slots=True)
class MasterFacts:
    """State collected once for all metrics of one scrape. Made on the event loop, read on any thread."""

    health: Health
    brokers: tuple[BrokerView, ...]
    group_states: Mapping[str, int]
    """Groups with members by their state."""
    server: ServerStats
    calls: Calls
    held_heartbeats: int
    rebalances: int
    refusals: Refusals = field(default_factory=Refusals)
    leads: bool = True
    http_expires_s: float | None = None
    """When the certificate of HTTP expires, in seconds since 1970; None without TLS there."""

    def readings(self) -> Iterable[Reading]:
        """Return a reading of each metric of a Master."""
        return [source.reading(self) for source in MASTER_METRICS]


def _broker_states(facts: MasterFacts) -> Values:
    states = Counter(broker.state for broker in facts.brokers)
    return {(state,): states[state] for state in BROKER_STATES}


def _groups(facts: MasterFacts) -> Values:
    return {(state,): facts.group_states.get(state, 0) for state in GROUP_STATES}


def states_of(balanced: Iterable[bool]) -> dict[str, int]:
    """Return the number of groups in each state, from whether each of them is balanced."""
    found = Counter("stable" if one else "balancing" for one in balanced)
    return {state: found[state] for state in GROUP_STATES}


def _calls(facts: MasterFacts) -> Values:
    return {(Method(method).name.lower(),): count for method, count in sorted(facts.calls.items())}


BROKER_STATES: Final = ("online", "starting", "away", "offline", "draft")
GROUP_STATES: Final = ("stable", "balancing")

MASTER_METRICS: tuple[Source[MasterFacts], ...] = (
    gauge("master_healthy", "1 while the cluster is healthy", lambda f: f.health.status == "healthy"),
    gauge("master_health_reasons", "Problems reported by the cluster's health", lambda f: len(f.health.reasons)),
    gauge("master_leader", "1 while this Master leads", lambda f: f.leads),
    gauge("master_insecure", "1 if the settings contain insecure = true", lambda f: f.health.insecure),
    gauge(
        "master_brokers",
        "Brokers by state: online, starting, away, and offline or draft as set by an operator",
        _broker_states,
        ("state",),
    ),
    gauge("master_topics", "Topics", lambda f: f.health.topics),
    gauge("master_groups", "Groups with members, by state: stable or balancing", _groups, ("state",)),
    gauge("master_consumers", "Registered consumers", lambda f: f.health.consumers),
    gauge("master_producers", "Registered producers", lambda f: f.health.producers),
    counter(
        "master_rebalances_total",
        "Rebalance events sent to consumers (partitions assigned or revoked)",
        lambda f: f.rebalances,
    ),
    gauge("master_heartbeats_held", "Heartbeats held until there is a change", lambda f: f.held_heartbeats),
    counter(
        "master_requests_total",
        "RPC requests by method: registrations, heartbeats and closes",
        _calls,
        ("method",),
    ),
    counter(
        "master_access_refused_total",
        "RPC requests that access control refused, by reason",
        lambda f: {(reason.value,): count for reason, count in sorted(f.refusals.refused.items())},
        ("reason",),
    ),
    counter(
        "master_access_would_refuse_total",
        "RPC requests that access control served because it is permissive, by the reason to refuse them",
        lambda f: {(reason.value,): count for reason, count in sorted(f.refusals.would_refuse.items())},
        ("reason",),
    ),
    *server_metrics("master"),
    counter("master_calls_failed_total", "RPC requests answered with an exception", lambda f: f.server.failed),
    counter(
        "master_calls_late_total", "Responses dropped because their callers had timed out", lambda f: f.server.late
    ),
)
"""All metrics of a Master, in the order of the output."""
