"""The verdict on the cluster: healthy, or what is not as it should be.

The invariant: each reason names the thing, its problem, and the remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq._version import __version__
from pytubemq.master.brokers.absent_brokers import is_unused
from pytubemq.master.reports.layout import OUT_OF_USE
from pytubemq.master.reports.reports import state_of
from pytubemq.master.views import Health, Reason
from pytubemq.model.topic import HISTORY_TOPIC
from pytubemq.net.tls.reload import trouble_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.master.access.http.http_access import HttpAccess
    from pytubemq.master.brokers.broker_run import BrokerRun
    from pytubemq.master.client_admission import ClientAdmission
    from pytubemq.master.groups.groups import Groups
    from pytubemq.master.producers import Producers
    from pytubemq.master.reports.reports import Reports
    from pytubemq.master.views import BrokerView
    from pytubemq.model.records import BrokerRecord
    from pytubemq.net.server.server import RpcServer
    from pytubemq.net.tls.reload import ReloadingContext

_MOST_SHOWN = 8
"""Topics in one reason; the others are counted."""


class ClusterHealth:
    """The health of the cluster by the state of the other rooms; changes nothing but `fault`."""

    def __init__(
        self,
        reports: Reports,
        groups: Groups,
        producers: Producers,
        admission: ClientAdmission,
        server: RpcServer,
        http_access: HttpAccess,
        *,
        insecure: bool = False,
    ) -> None:
        self.fault: str | None = None
        """The last error inside this Master; None if there was none."""
        self.http_certificate: ReloadingContext | None = None
        """The context of this Master's HTTP; None without TLS there."""
        self._reports = reports
        self._layout = reports.layout
        self._brokers = reports.layout.brokers
        self._groups = groups
        self._producers = producers
        self._admission = admission
        self._server = server
        self._http_access = http_access
        self._insecure = insecure

    def health(self) -> Health:
        """Return the verdict: healthy, or degraded with the reasons."""
        faults = [fault for fault in (self.fault, self._brokers.upkeep.problem) if fault]
        reasons = [
            *(Reason(thing="master", why=fault, hint="check its log, then restart it") for fault in faults),
            *self._client_reasons(),
            *self._broker_reasons(),
            *self._topic_reasons(),
            *self._group_reasons(),
        ]
        brokers = self._reports.brokers()
        return Health(
            status="degraded" if reasons else "healthy",
            reasons=reasons,
            version=__version__,
            insecure=self._insecure,
            brokers=len(brokers),
            brokers_online=sum(broker.state == "online" for broker in brokers),
            topics=len(self._layout.topics()),
            groups_with_members=len(self._groups.groups),
            producers=len(self._producers.by_id),
            consumers=sum(len(group.members) for group in self._groups.groups.values()),
        )

    def _client_reasons(self) -> Iterable[Reason]:
        if (full := self._server.problem) is not None:
            yield Reason(
                thing="connections",
                why=full,
                hint="find the source with `ss` and stop it, or allow more open files",
            )
        for thing, trouble in (
            ("certificate", self._server.certificate_problem),
            ("HTTP certificate", trouble_of(self.http_certificate)),
        ):
            if trouble is not None:
                yield Reason(
                    thing=thing,
                    why=trouble,
                    hint="put a new one in its place; no restart is needed (docs/how-to/tls.md)",
                )
        if (oidc := self._http_access.oidc) is not None and oidc.problem is not None:
            yield Reason(
                thing="oidc keys",
                why=f"changed keys of the OIDC issuer are not in force: {oidc.problem}",
                hint="put a right file in its place; no restart is needed (docs/how-to/secure-a-cluster.md)",
            )
        if (problem := self._admission.problem) is not None:
            yield Reason(
                thing="clients",
                why=f"{problem}; {self._admission.made_room} removed to make room so far",
                hint="find the source with `pytubemq group list` and the log, and stop it",
            )

    def _broker_reasons(self) -> Iterable[Reason]:
        brokers = self._reports.brokers()
        if not brokers:
            yield Reason(
                thing="brokers", why="no Broker has ever registered", hint="start one: pytubemq server run broker"
            )
        some_online = any(broker.state == "online" for broker in brokers)
        for broker in brokers:
            if (forced := self._brokers.faults.forbidden.get(broker.id)) is not None:
                yield Reason(
                    thing=f"broker {broker.id}",
                    why=f"it reported faults of its storage and has been {forced.status.text} since",
                    hint="repair it, then admin_release_broker_autoforbidden_status and admin_online_broker_configure",
                )
            run = self._brokers.runs.get(broker.id)
            if run is not None and run.unknown:
                yield _unknown(run)
            if broker.manage_status in OUT_OF_USE:
                yield from self._held_back(broker)
                continue  # nobody waits for it
            record = self._layout.catalogue.brokers.get(broker.id)
            if broker.state == "away" and some_online and self._is_unused(record):
                continue  # it registered automatically, perhaps by mistake, and has no topic
            for why in state_of(record, run)[1]:
                yield Reason(
                    thing=f"broker {broker.id}",
                    why=f"{broker.state}: {why}",
                    hint=f"repair what it names; the log of the Broker at {broker.address} says more"
                    if broker.state == "online"
                    else f"check the log of the Broker at {broker.address}, or start it",
                )

    def _is_unused(self, record: BrokerRecord | None) -> bool:
        return record is not None and is_unused(self._layout.catalogue, record)

    def _held_back(self, broker: BrokerView) -> Iterable[Reason]:
        """Yield a reason for a Broker that an operator set offline or draft, if it holds topics that clients use."""
        places = self._layout.catalogue.deployed_on(broker.id)
        topics = [place.topic for place in places if place.topic != HISTORY_TOPIC and not place.topic_status.removed]
        if topics:
            shown = ", ".join(topics[:_MOST_SHOWN])
            more = f" and {len(topics) - _MOST_SHOWN} more" if len(topics) > _MOST_SHOWN else ""
            yield Reason(
                thing=f"broker {broker.id}",
                why=f"{broker.state}: an operator has set it so, and clients cannot reach {shown}{more} there",
                hint="admin_online_broker_configure puts it online; or take these topics off it",
            )

    def _topic_reasons(self) -> Iterable[Reason]:
        for topic in self._layout.topics():
            late = [
                broker_id
                for broker_id, config in self._layout.configs(topic.topic).items()
                if (run := self._brokers.runs.get(broker_id)) is not None
                and run.online
                and not self._brokers.topics.carries(broker_id, config)
            ]
            if late:
                yield Reason(
                    thing=f"topic {topic.topic}",
                    why=f"not reported by broker {', '.join(map(str, late))}",
                    hint="it follows with the Broker's next heartbeat; if not, check its log",
                )

    def _group_reasons(self) -> Iterable[Reason]:
        for name, group in sorted(self._groups.groups.items()):
            if group.needs:
                yield Reason(
                    thing=f"group {name}",
                    why=f"{group.kind.text}, {len(group.members)} of {group.needs} consumers have joined",
                    hint="start the missing consumers",
                )


def _unknown(run: BrokerRun) -> Reason:
    names = sorted(run.unknown)
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return Reason(
        thing=f"broker {run.broker_id}",
        why=f"it has topics that this Master does not know ({', '.join(names[:_MOST_SHOWN])}{more}) and is given no "
        "orders: the metadata may be lost, or be another cluster's",
        hint="put a copy of the metadata back, or take the topics over: pytubemq cluster adopt (with --discard the "
        "Broker stops serving them, and keeps their files)",
    )
