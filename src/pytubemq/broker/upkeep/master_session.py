"""This Broker's session with the Master: registration, heartbeats, configuration, leaving.

The invariants: a Master that cannot be reached never stops the Broker from serving; a configuration is reported back
as soon as it is in force, and a change of the Broker's own condition as soon as it is known, not a period later; every
wait and every try is bounded, and the last failure is shown in the Broker's health.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from pytubemq._version import __version__
from pytubemq.broker.upkeep import reports
from pytubemq.broker.upkeep.reports import Condition
from pytubemq.core.flow import format_rules, parse_rules
from pytubemq.core.retry import Backoff
from pytubemq.errors import Code, FormatError, RequestTimeoutError, StorageError, TubeError, refused
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import DEFAULT_REQUEST_TIMEOUT_S, MAX_HEARTBEAT_WAIT_S, MAX_REGISTRATION_BYTES
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import (
    CloseRequestB2M,
    CloseResponseM2B,
    HeartRequestB2M,
    HeartResponseM2B,
    RegisterResponseM2B,
)
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import encode
from pytubemq.wire.text.configuration import parse_broker_topic_conf

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.broker.topics import MasterConfig
    from pytubemq.broker.upkeep.master_orders import MasterOrders
    from pytubemq.model.durability import Durability
    from pytubemq.model.ids import Address
    from pytubemq.net.client.masters import MasterClient

logger = logging.getLogger(__name__)

_BACKOFF: Final = Backoff(first_s=0.2, most_s=5.0)
_UNHELD_PAUSE_S: Final = 0.2
"""The pause between heartbeats that a Master was asked to hold and did not, so that the two never spin."""
_MAX_IN_A_ROW: Final = 50
"""The most consecutive heartbeats that are sent at once after news, as while many topics are created; after that
each waits."""
_FAREWELL_TIMEOUT_S: Final = 1.0
_REMOVED: Final = 2
"""The least status with which a topic that the Master lists for removal is removed (1 is a soft delete)."""


@dataclass(slots=True)
class SessionHealth:
    """The state of this Broker's session with the Master."""

    registered: bool = False
    problem: str | None = None
    refusal: str | None = None
    """The reason why the Master refused the last registration; None once it accepted one."""
    unusable: str | None = None
    """The part of the Master's last response that cannot be used; None if all of it could."""
    forgotten: int = 0
    """The number of times that the Master no longer knew this Broker."""
    heartbeats: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """This Broker as it registers at the Master."""

    broker_id: int
    advertised: Address
    tls_port: int
    has_tls: bool
    """True if it listens on that port."""
    web_port: int | None
    durability: Durability

    @property
    def client_id(self) -> str:
        """Its client id."""
        return f"{self.broker_id}:{self.advertised}:{__version__}"


class MasterSession:
    """The Broker's session with the Master. `run` is a task of the service; `join` may be called once before it."""

    def __init__(
        self,
        identity: BrokerIdentity,
        masters: MasterClient,
        config: MasterConfig,
        orders: MasterOrders,
        *,
        heartbeat_period_s: float,
        leases: Callable[[int], tuple[str, ...]],
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.health = SessionHealth()
        self._identity = identity
        self._masters = masters
        self._config = config
        self._orders = orders
        self._leases = leases
        self._period_s = heartbeat_period_s
        self._rng = rng
        self._report = True
        """True if the next heartbeat reports the configuration in force."""
        self._may_have_missed = False
        self._in_a_row = 0
        """Consecutive responses with news, after which the next heartbeat was sent at once."""
        self._forgotten = 0
        """The number of times that the Master has forgotten this Broker since it last accepted a heartbeat."""
        """True if a response may have been on its way that was not waited for."""
        self._condition = Condition()
        self._news = asyncio.Event()
        """Set while the condition differs from the last heartbeat's."""

    def report(self, condition: Condition) -> None:
        """Set the condition that heartbeats report; the Master learns of a change at once."""
        if condition != self._condition:
            self._condition = condition
            self._news.set()

    async def join(self, *, timeout_s: float) -> bool:
        """Register and report once; return False if that failed, after which `run` retries."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._register()
                await self._heartbeat(wait_s=0.0)
        except TimeoutError:
            self._record_failure(RequestTimeoutError(f"the Master did not accept this Broker within {timeout_s:g} s"))
            return False
        except TubeError as error:
            self._record_failure(error)
            return False
        return True

    async def run(self) -> None:
        """Send heartbeats until cancelled; register again whenever the Master does not know this Broker."""
        attempt = 0
        while True:
            try:
                if self.health.registered:
                    await self._beat()
                else:
                    if self._forgotten > 1:
                        await asyncio.sleep(_BACKOFF.delay_s(self._forgotten - 1, self._rng))
                    await self._register()
                attempt = 0
            except Exception as error:
                attempt += 1
                self._record_failure(error)
                await asyncio.sleep(_BACKOFF.delay_s(attempt, self._rng))

    async def leave(self) -> None:
        """Unregister, since this Broker stops; bounded in time, whether the Master responds or not."""
        if not self.health.registered:
            return
        self.health.registered = False
        with contextlib.suppress(TubeError, TimeoutError):
            async with asyncio.timeout(_FAREWELL_TIMEOUT_S):
                await self._masters.request(
                    CloseRequestB2M(broker_id=str(self._identity.broker_id)),
                    CloseResponseM2B,
                    Method.BROKER_CLOSE_B2M,
                    timeout_s=_FAREWELL_TIMEOUT_S,
                )

    # --- inside ---------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        request = replace(
            reports.registration(
                self._identity.client_id,
                self._config,
                self._condition,
                tls_port=self._identity.tls_port,
                has_tls=self._identity.has_tls,
                stored_topics=self._orders.stored_topics,
            ),
            own_durability=self._identity.durability.value,
            own_web_port=self._identity.web_port,
            access_version=self._orders.access_version,
        )
        room_bytes = MAX_REGISTRATION_BYTES - len(encode(request))
        answer = await self._masters.request(
            replace(request, leases=self._leases(room_bytes)),
            RegisterResponseM2B,
            Method.BROKER_REGISTER_B2M,
            timeout_s=DEFAULT_REQUEST_TIMEOUT_S,
        )
        if not answer.success:
            self.health.refusal = f"the Master refuses Broker {self._identity.broker_id}: {answer.err_msg}"
            raise refused(answer.err_code, self.health.refusal)
        self._orders.record_registration(answer.enable_broker_info)
        stored = self._orders.stored
        await self._take(answer, default_conf=answer.broker_default_conf_info)
        self._orders.compare(stored)
        self._report = True
        if not self.health.registered:
            logger.info("Broker %d is registered at Master %s", self._identity.broker_id, self._masters.current)
        self.health.registered = True
        self.health.problem = self.health.refusal = None

    async def _beat(self) -> None:
        """Send one heartbeat, and make the pause that follows it."""
        connection = self._masters.peek()
        held = connection is not None and Capability.HEARTBEAT_WAIT in connection.capabilities
        reporting = self._report
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        # The Master assumes that its last response arrived; a heartbeat without a wait makes it repeat everything.
        at_once = reporting or not held or self._may_have_missed
        news = await self._heartbeat(wait_s=0.0 if at_once else MAX_HEARTBEAT_WAIT_S)
        if news or not self.health.registered:
            self._in_a_row += not self._may_have_missed
            if self._in_a_row > _MAX_IN_A_ROW:
                await asyncio.sleep(_UNHELD_PAUSE_S)
            return
        self._in_a_row = 0
        if not held:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period_s):
                    await self._news.wait()
        elif not at_once and loop.time() - started_s < _UNHELD_PAUSE_S:
            await asyncio.sleep(_UNHELD_PAUSE_S)

    async def _heartbeat(self, *, wait_s: float) -> bool:
        """Send one heartbeat; True if the next one is to follow at once."""
        self._news.clear()
        request = reports.heartbeat(
            self._identity.broker_id, self._config, self._condition, report=self._report, wait_s=wait_s
        )
        answer = await self._ask(
            replace(request, access_version=self._orders.access_version),
            timeout_s=DEFAULT_REQUEST_TIMEOUT_S + wait_s,
        )
        self._may_have_missed = answer is None
        if answer is None:
            return True
        if not answer.success:
            self.health.registered = False
            if answer.err_code == Code.HB_NO_NODE:
                self.health.forgotten += 1
                self._forgotten += 1
                logger.info("the Master does not know Broker %d any more, registering again", self._identity.broker_id)
                return True
            raise refused(answer.err_code, f"the Master refuses the heartbeat: {answer.err_msg}")
        self.health.heartbeats += 1
        self._forgotten = 0
        self._report = answer.need_report_data
        if answer.take_remove_topic_info:
            self._orders.removal.set_listed(self._to_remove(answer.remove_topic_conf_info))
        news = await self._take(answer, default_conf=answer.broker_default_conf_info if answer.take_conf_info else None)
        self._report = self._report or news
        self.health.problem = None
        return self._report

    async def _ask(self, heartbeat: HeartRequestB2M, *, timeout_s: float) -> HeartResponseM2B | None:
        """Return the Master's response; None if this Broker must report a change while the heartbeat is held."""
        asking = asyncio.ensure_future(
            self._masters.request(heartbeat, HeartResponseM2B, Method.BROKER_HEARTBEAT_B2M, timeout_s=timeout_s)
        )
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((asking, news), return_when=asyncio.FIRST_COMPLETED)
            return await asking if asking.done() else None
        finally:
            asking.cancel()
            news.cancel()
            await asyncio.gather(asking, news, return_exceptions=True)

    async def _take(self, answer: RegisterResponseM2B | HeartResponseM2B, *, default_conf: str | None) -> bool:
        """Apply the Master's response; return True if that changed anything."""
        self._orders.stop(reads=answer.stop_read, writes=answer.stop_write)
        tokens = answer.broker_authorized_info
        self._orders.tokens(tokens.visit_authorized_token if tokens is not None else "")
        self._orders.access(answer.access)
        changed = self._flow(self._config, answer)
        cluster = answer.cls_config
        if cluster is not None and cluster.config_id != changed.cluster_id:
            size = cluster.max_msg_size or changed.max_message_bytes
            changed = msgspec.structs.replace(changed, cluster_id=cluster.config_id, max_message_bytes=size)
        if default_conf is not None and default_conf.strip():
            conf_id, check_sum = answer.cur_broker_conf_id, answer.conf_check_sum_id
            changed = msgspec.structs.replace(
                changed,
                conf_id=changed.conf_id if conf_id is None else conf_id,
                check_sum=changed.check_sum if check_sum is None else check_sum,
                default_conf=default_conf,
                topic_confs=answer.broker_topic_set_conf_info,
                topic_durability=answer.topic_durability,
                topic_retention=answer.topic_retention,
            )
        if changed == self._config:
            return False
        try:
            await self._orders.configure(changed)
        except FormatError as error:
            raise FormatError(f"the Master sent a configuration that cannot be used: {error}") from error
        except OSError as error:
            raise StorageError(
                f"the topics cannot be written to the data directory: {error.strerror or error}",
                hint="free some space or repair the disk; the Broker retries automatically",
            ) from error
        self._config = changed
        return True

    def _flow(self, config: MasterConfig, answer: RegisterResponseM2B | HeartResponseM2B) -> MasterConfig:
        """Return the configuration with the cluster's flow control from the response.

        Malformed rules leave the previous ones in force, and are shown in the health.
        """
        check_id, text, priority_id = answer.flow_check_id, answer.flow_control_info, answer.qry_priority_id
        if priority_id is not None:
            config = msgspec.structs.replace(config, qry_priority_id=priority_id)
        if check_id is None:
            return config
        if check_id < 0:  # the cluster has none
            self.health.unusable = None
            return msgspec.structs.replace(config, flow_check_id=UNDEFINED, flow_rules="")
        if text is None:
            return config
        try:
            rules = parse_rules(text)
        except FormatError as error:
            problem = f"the Master's flow-control rules cannot be used: {error.message}"
            if problem != self.health.unusable:
                logger.warning("%s; the previous ones stay in force", problem)
            self.health.unusable = problem
            return msgspec.structs.replace(config, flow_check_id=check_id)
        self.health.unusable = None
        return msgspec.structs.replace(
            config, flow_check_id=check_id, flow_rules=format_rules(rules) if rules.count else ""
        )

    def _to_remove(self, confs: tuple[str, ...]) -> frozenset[str]:
        """Return the topics that the Master wants removed; malformed ones are skipped, and shown in the health."""
        found = set()
        for text in confs:
            try:
                conf = parse_broker_topic_conf(text)
            except FormatError as error:
                problem = f"the Master's request to remove a topic cannot be read: {error.message}"
                if problem != self.health.unusable:
                    logger.warning("%s; no topic is removed for it", problem)
                self.health.unusable = problem
                continue
            if conf.status >= _REMOVED:
                found.add(conf.topic)
        return frozenset(found)

    def _record_failure(self, error: Exception) -> None:
        self.health.failures += 1
        self._orders.record_outage()
        expected = isinstance(error, TubeError)
        problem = error.message if isinstance(error, TubeError) else f"{type(error).__name__}: {error}"
        if self.health.problem != problem:  # once per cause, not once per try
            logger.warning(
                "Broker %d and the Master: %s; still serving, retrying",
                self._identity.broker_id,
                problem,
                exc_info=None if expected else error,
            )
        self.health.problem = problem
