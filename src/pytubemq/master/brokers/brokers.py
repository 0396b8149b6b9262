"""The Brokers: who is online, and who still has to learn a change.

The invariants: a Broker that went away keeps its partitions "absent" for a while, so that a restart moves nothing; a
change of the metadata reaches a waiting Broker at once.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.core.refusal import Refused
from pytubemq.core.return_deadline import return_deadline_s
from pytubemq.errors import Code
from pytubemq.master import responses
from pytubemq.master.brokers.absent_brokers import AbsentBrokers
from pytubemq.master.brokers.broker_faults import BrokerFaults
from pytubemq.master.brokers.broker_responses import BrokerResponses, refused_heartbeat
from pytubemq.master.brokers.broker_run import BrokerRun
from pytubemq.master.brokers.broker_topics import BrokerTopics, Presence
from pytubemq.master.brokers.configuration import SyncId, changed_conf
from pytubemq.master.brokers.configuration_builds import ConfBuilds
from pytubemq.master.brokers.heartbeat_reports import HeartbeatReports
from pytubemq.master.brokers.leases import Leases
from pytubemq.master.brokers.limited_log import LimitedLog
from pytubemq.master.brokers.registration.admission import BrokerAdmission
from pytubemq.master.brokers.registration.claims import BrokerIdentity, parse_broker_id
from pytubemq.master.brokers.registration.registration_request import Registration
from pytubemq.master.brokers.registration.registration_turns import RegistrationTurns
from pytubemq.master.brokers.upkeep import BrokerUpkeep
from pytubemq.master.client_connections import ClientConnections, Connection
from pytubemq.master.held_heartbeats import HeldHeartbeats, allowed_wait_s
from pytubemq.master.stories.stories import Stories
from pytubemq.model.ids import Address
from pytubemq.model.limits import (
    FOREIGN_CONNECTION_GRACE_S,
    MAX_BROKERS_PER_CONNECTION,
    MAX_PROBLEM_CHARS,
    REPORT_SLICE,
)
from pytubemq.model.names import escaped
from pytubemq.model.records import BrokerRecord, ClusterRecord, DeployRecord, TopicRecord
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import (
    CloseRequestB2M,
    CloseResponseM2B,
    HeartRequestB2M,
    RegisterRequestB2M,
    RegisterResponseM2B,
)
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from pytubemq.master.access.broker_access import BrokerChecks
    from pytubemq.master.access.tokens import Tokens
    from pytubemq.master.brokers.configuration_builds import ConfBuild
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.settings import MasterSettings
    from pytubemq.model.records import Record
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Call
    from pytubemq.wire.text.partition_strings import SubscribeInfo

logger = logging.getLogger(__name__)

PUSH_AGAIN_S = 1.0
"""The shortest time between two responses to a Broker that was pushed a change and reports another configuration."""


class Brokers:
    """All Brokers; `on_change` is called with topics that may have become available or unavailable."""

    def __init__(
        self,
        catalogue: Catalogue,
        settings: MasterSettings,
        clock: Clock,
        tokens: Tokens,
        checks: BrokerChecks,
        on_change: Callable[[Collection[str]], None],
    ) -> None:
        self._presence = Presence()
        self.runs = self._presence.runs
        self.topics = BrokerTopics(catalogue, self._presence)
        self.held = HeldHeartbeats(limit=settings.max_held_heartbeats)
        self._catalogue = catalogue
        self._settings = settings
        self._clock = clock
        self._on_change = on_change
        self._connections = ClientConnections(self._lost, on_foreign_lost=self._foreign_lost)
        self.faults = BrokerFaults(most=settings.max_auto_forbidden)
        self._absent_brokers = AbsentBrokers(catalogue, self.runs)
        self.admission = BrokerAdmission(catalogue, settings, clock, self.runs, self._absent_brokers)
        self.admission.on_made_room = self._made_room
        self.stories = Stories(clock)
        self.timeouts = 0
        """The Brokers that were lost, or silent for too long, since the start of this Master."""
        self.upkeep = BrokerUpkeep(catalogue, clock, self.stories)
        self._reports = HeartbeatReports(catalogue, clock, self._presence, self.topics, self.faults, self.upkeep)
        self._builds = ConfBuilds(catalogue)
        self.turns = RegistrationTurns()
        self._checks = checks
        self._responses = BrokerResponses(catalogue, self.faults, tokens, checks)
        self._log = LimitedLog(logger, "registrations and departures of Brokers")
        self.leases = Leases()
        self.on_registered: Callable[[int, Collection[SubscribeInfo]], None] = lambda broker_id, readers: None
        """Called with a Broker that has registered, and the consumers that read from it."""
        self.on_access_learned: Callable[[], None] = lambda: None
        """Called when a Broker has reported another version of users and permissions."""
        self.on_released: Callable[[int], None] = lambda broker_id: None
        """Called with a Broker that is no longer registered."""

    def expect_all(self) -> None:
        """Expect every Broker of the catalogue to come back, after a start of the Master."""
        until_s = self._clock.now_s() + self._settings.restart_grace_s
        self._presence.expected_until.update(dict.fromkeys(self._catalogue.brokers, until_s))
        self._presence.unheard.update(self._catalogue.brokers)

    def tls_address(self, address: Address) -> Address | None:
        """Return the address of a Broker's TLS port; None for a Broker that has not registered with one."""
        for record in self._catalogue.brokers.values():
            if record.address == address:
                run = self.runs.get(record.broker_id)
                return Address(address.host, record.tls_port) if run is not None and run.over_tls else None
        return None

    # --- what operators do --------------------------------------------------------------------------------------

    def release_forbidden(self, broker_id: int) -> bool:
        """Lift the restrictions that a Broker got for its reports; return True if it had any."""
        released = self.faults.release(broker_id)
        self.held.wake(broker_id)
        return released

    def note_overdue(self, broker_id: int) -> None:
        """Record that a Broker did not apply a change in time."""
        run = self.runs.get(broker_id)
        if run is not None:
            if not run.overdue:
                self.stories.record_broker(broker_id, "late", "it has not reported a change in time")
            run.overdue = True

    def retire(self, broker_id: int) -> None:
        """Remove a Broker whose record was deleted; if it runs, it does not register automatically again."""
        if broker_id in self.runs:
            self.admission.retired.add(broker_id)
            self._release(broker_id, "deleted")
        self._forget(broker_id)

    def _made_room(self, broker_id: int) -> None:
        self._release(broker_id, "it made room for another Broker")
        self._forget(broker_id)

    def _forget(self, broker_id: int) -> None:
        self._presence.expected_until.pop(broker_id, None)
        self._presence.synced.discard(broker_id)
        self.admission.forget(broker_id)

    def reload(self, broker_id: int) -> None:
        """Send a Broker its configuration once more, whatever it has reported."""
        run = self.runs.get(broker_id)
        if run is not None:
            sync_id = run.conf.sync_id
            run.conf = replace(run.conf, sync_id=SyncId(sync_id.conf_id + 1, sync_id.checksum))
            self.held.wake(broker_id)

    # --- methods 7, 8, 9 ----------------------------------------------------------------------------------------

    async def register(self, call: Call, request: RegisterRequestB2M) -> RegisterResponseM2B:
        """Serve method 7. An unknown Broker gets a record automatically, unless the settings forbid it."""
        tls_port = self._catalogue.cluster.broker_tls_port if request.tls_port is None else request.tls_port
        who = BrokerIdentity.parse(request.client_id, tls_port)
        broker_id = who.broker_id
        self._connections.check_room(broker_id, call.connection, most=MAX_BROKERS_PER_CONNECTION)
        registration = await Registration.read(request, who, self._catalogue, self.runs)
        with self._builds.build(broker_id) as build:
            await build.run()
            if call.connection.closed:  # nobody would speak for it
                raise Refused(Code.SERVICE_UNAVAILABLE, f"the connection of broker {broker_id} was lost")
            run = await self._enter(call, registration, build)
        if len(registration.report) > REPORT_SLICE:  # building the response may take as long as all of the above
            await asyncio.sleep(0)
        return self._register_response(run, request)

    async def _enter(self, call: Call, registration: Registration, build: ConfBuild) -> BrokerRun:
        """Register a Broker. Nothing but its admission waits, so two registrations of an id have an order."""
        request, who, topics, broker_id = (
            registration.request,
            registration.who,
            registration.topics,
            registration.who.broker_id,
        )
        source = call.peer.rpartition(":")[0]
        known = self._connections.carries(broker_id, call.connection)
        record, contested = await self.admission.admit(who, topics, source=None if known else source)
        now_s = self._clock.now_s()
        before = self.runs.get(broker_id)
        conf_id = self._clock.wall_ms() if before is None else before.conf.sync_id.conf_id + 1
        run = BrokerRun(
            broker_id=broker_id,
            address=record.address,
            version=who.version,
            deadline_s=now_s + self._settings.broker_silence_s,
            heard_s=now_s,
            source=source,
            settled_s=now_s + FOREIGN_CONNECTION_GRACE_S if contested else now_s,
            conf=build.finish(first_id=conf_id),
            reported=SyncId(request.cur_broker_conf_id, request.conf_check_sum_id),
            over_tls=request.enable_tls,
            holds_heartbeats=Capability.HEARTBEAT_WAIT in call.connection.capabilities,
            knows_access=request.access_version is not None,
            online=request.broker_online,
            topics=topics if request.broker_online else {},
            read_status=request.read_status_rpt,
            write_status=request.write_status_rpt,
            reported_defaults=request.broker_default_conf_info or "",
            reported_topics=registration.report,
            surplus=registration.surplus,
            unknown={
                name: held
                for name, held in registration.unknown.items()
                if broker_id not in self._catalogue.deployed(name)
            },
            durability=escaped((request.own_durability or "")[:MAX_PROBLEM_CHARS]),
            web_port=request.own_web_port if 1 <= (request.own_web_port or 0) <= 65_535 else None,
            access_version=request.access_version,
            since_ms=self._clock.wall_ms(),
            heard_ms=self._clock.wall_ms(),
        )
        if broker_id in self._presence.unheard:
            self.leases.record(registration.readers, until_s=now_s + self._settings.restart_grace_s)
        self.runs[broker_id] = run
        # Until it says that it is online it counts as on its way back, so nothing is withdrawn meanwhile.
        self._presence.expected_until[broker_id] = now_s + self._settings.broker_absence_s
        self.held.release(broker_id)
        self._connections.record_use(broker_id, call.connection)
        self._log.info(
            now_s, "broker %d registered from %s (version %s)", broker_id, record.address, who.version or "unknown"
        )
        again = "" if before is None else f"it was registered from {before.address} already"
        self.stories.record_broker(
            broker_id, "registered", f"from {record.address}, version {who.version or 'unknown'}", again
        )
        if run.unknown:
            held = ", ".join(sorted(run.unknown))
            why = "it gets no orders before `pytubemq cluster adopt`"
            self.stories.record_broker(
                broker_id, "unsettled", f"it holds topics that this Master does not know: {held}", why
            )
        self._on_change(self._catalogue.topics_on(broker_id))
        self.on_registered(broker_id, registration.readers)
        return run

    def heartbeat(self, call: Call, request: HeartRequestB2M) -> None:
        """Serve method 8: record the heartbeat at once; respond at once if there is a change to push, else hold it."""
        broker_id = parse_broker_id(request.broker_id)
        run = self._speaking(broker_id, call)
        now_s = self._clock.now_s()
        run.deadline_s = now_s + self._settings.broker_silence_s
        run.heard_s, run.heard_ms = now_s, self._clock.wall_ms()
        was_online, problems = run.online, run.problems
        if self._reports.record(run, request):
            self._on_change(self._catalogue.topics_on(broker_id))
        if run.online and not was_online:
            self.stories.record_broker(broker_id, "online", f"it serves {len(run.topics)} topics")
        if run.problems != problems:
            self.stories.record_broker(broker_id, "problems", "; ".join(run.problems) or "none any more")
        if run.access_version != request.access_version:
            run.access_version = request.access_version
            self.on_access_learned()
        self._reports.change_records(run, call, request)
        wait_s = allowed_wait_s(
            request.max_wait_ms, left_s=call.deadline_s - now_s, longest_s=self._settings.heartbeat_wait_s
        )
        if not run.in_sync and run.pushed == run.conf.sync_id and now_s - run.pushed_s < PUSH_AGAIN_S:
            wait_s = min(wait_s, PUSH_AGAIN_S)
        self.held.hold(broker_id, wait_s, lambda must: self._respond(run, call, request, must=must))

    def close(self, call: Call, request: CloseRequestB2M) -> CloseResponseM2B:
        """Serve method 9: a Broker leaves; it may come back after a restart."""
        broker_id = parse_broker_id(request.broker_id)
        self._speaking(broker_id, call)
        self._release(broker_id, "closed")
        return CloseResponseM2B(success=True, err_code=Code.SUCCESS, err_msg=responses.OK)

    # --- what happens -------------------------------------------------------------------------------------------

    def access_changed(self) -> None:
        """Send every Broker the users and permissions as they are now."""
        self.held.wake_all()

    def behind_in_access(self) -> list[int]:
        """Return the online Brokers that check users and permissions, and have those of an earlier version."""
        version = self._checks.version
        return [
            run.broker_id
            for run in self.runs.values()
            if run.online and run.access_version is not None and run.access_version < version
        ]

    def metadata_changed(self, records: Collection[Record]) -> None:
        """Notify every Broker that changed or deleted records concern."""
        self.topics.forget(records)
        for broker_id, topics in self._concerned(records).items():
            for build in self._builds.of(broker_id):
                build.note(topics)
            if (run := self.runs.get(broker_id)) is None:
                continue
            conf = changed_conf(self._catalogue, broker_id, run.conf, topics)
            if conf is not run.conf or run.last_news != self._responses.news(run):
                run.conf = conf
                self.held.wake(broker_id)
        self.admission.retired.difference_update(
            [one for one in self.admission.retired if one in self._catalogue.brokers]
        )

    def _concerned(self, records: Collection[Record]) -> dict[int, set[str]]:
        """Return the registered Brokers that records concern, each with the topics of which they speak."""
        building = self._builds.brokers()
        whole = any(isinstance(record, ClusterRecord) for record in records)
        found: dict[int, set[str]] = {broker_id: set() for broker_id in {*self.runs, *building}} if whole else {}

        def is_known(broker_id: int) -> bool:
            return broker_id in self.runs or broker_id in building

        for record in records:
            match record:
                case BrokerRecord(broker_id=broker_id) if is_known(broker_id):
                    found.setdefault(broker_id, set())
                case DeployRecord(topic=topic, broker_id=broker_id) if is_known(broker_id):
                    found.setdefault(broker_id, set()).add(topic)
                case TopicRecord(topic=topic):
                    for broker_id in filter(is_known, self._catalogue.deployed(topic)):
                        found.setdefault(broker_id, set()).add(topic)
        return found

    def connection_lost(self, connection: Connection) -> None:
        """Record that a connection broke."""
        self._connections.close(connection)

    def tick(self, now_s: float) -> None:
        """Release Brokers whose heartbeats are overdue, and stop expecting those that did not come back."""
        self.leases.expire(now_s)
        self._log.log_rest(now_s)
        for run in list(self.runs.values()):
            if run.deadline_s <= now_s:
                self.timeouts += 1
                self._release(run.broker_id, "connection lost" if run.lost else "no heartbeat in time")
        self._absent_brokers.update(now_s)
        if expired := self._absent_brokers.expired(now_s):
            self.upkeep.delete_unused(expired, self.runs, self._forget)
        overdue = [broker_id for broker_id, until_s in self._presence.expected_until.items() if until_s <= now_s]
        for broker_id in overdue:
            del self._presence.expected_until[broker_id]
            self._presence.unheard.discard(broker_id)
        for broker_id in overdue:
            text = "its partitions are no longer kept for the members that had them"
            self.stories.record_broker(broker_id, "given up", text, "it did not come back")
        if overdue:
            self._on_change({topic for broker_id in overdue for topic in self._catalogue.topics_on(broker_id)})

    def due_s(self) -> float | None:
        """Return when `tick` has something to do next; None if nothing is due."""
        dues = [run.deadline_s for run in self.runs.values()]
        return min((*dues, *self._presence.expected_until.values()), default=None)

    # --- inside -------------------------------------------------------------------------------------------------

    def _speaking(self, broker_id: int, call: Call) -> BrokerRun:
        """Return the Broker that is registered over this connection; no other connection speaks for it."""
        run = self.runs.get(broker_id)
        if run is None or not self._connections.carries(broker_id, call.connection):
            raise Refused(Code.HB_NO_NODE, f"broker {broker_id} is not registered over this connection, register first")
        return run

    def _respond(self, run: BrokerRun, call: Call, request: HeartRequestB2M, *, must: bool) -> bool:
        if self.runs.get(run.broker_id) is not run:
            call.reply(
                encode(
                    refused_heartbeat(
                        Code.HB_NO_NODE, f"broker {run.broker_id} is no longer registered, register again"
                    )
                )
            )
            return True
        push = not run.in_sync and not run.unknown
        just_pushed = run.pushed == run.conf.sync_id and self._clock.now_s() - run.pushed_s < PUSH_AGAIN_S
        news = self._responses.news(run)
        if not must and news == run.last_news and (not push or just_pushed):
            return False
        if push:
            run.pushed, run.pushed_s = run.conf.sync_id, self._clock.now_s()
        run.last_news = news
        call.reply(encode(self._responses.heartbeat(run, request, push=push)))
        return True

    def _register_response(self, run: BrokerRun, request: RegisterRequestB2M) -> RegisterResponseM2B:
        push = not run.in_sync and not run.unknown
        if push:
            run.pushed, run.pushed_s = run.conf.sync_id, self._clock.now_s()
        return self._responses.registration(run, request, push=push)

    def _lost(self, key: Hashable) -> None:
        """Handle a lost connection of one of our Brokers: it comes back at once, or never."""
        self._connection_lost(key, self._settings.lost_connection_grace_s)

    def _foreign_lost(self, key: Hashable) -> None:
        """Handle a lost connection of a Java Broker: it does not notice before its next heartbeat."""
        run = self.runs.get(key) if isinstance(key, int) else None
        if run is not None:
            now_s = self._clock.now_s()
            until_s = return_deadline_s(lost_s=now_s, beat_s=run.heard_s, grace_s=FOREIGN_CONNECTION_GRACE_S)
            self._connection_lost(key, until_s - now_s)

    def _connection_lost(self, key: Hashable, grace_s: float) -> None:
        run = self.runs.get(key) if isinstance(key, int) else None
        self.held.drop(key)
        if run is not None:
            if not run.lost:
                self.stories.record_broker(run.broker_id, "connection lost", f"it may come back within {grace_s:.0f} s")
            run.lost = True
            run.deadline_s = min(run.deadline_s, self._clock.now_s() + grace_s)

    def _release(self, broker_id: int, reason: str) -> None:
        self._log.info(self._clock.now_s(), "broker %d is gone: %s", broker_id, reason)
        self.stories.record_broker(broker_id, "gone", "its partitions wait for it", reason)
        del self.runs[broker_id]
        self.faults.release(broker_id)
        self._connections.forget(broker_id)
        self.held.release(broker_id)
        self.on_released(broker_id)
        self._presence.expected_until[broker_id] = self._clock.now_s() + self._settings.broker_absence_s
        self._on_change(self._catalogue.topics_on(broker_id))
