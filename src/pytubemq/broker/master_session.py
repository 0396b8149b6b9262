"""This Broker's standing with the Master: register, heartbeat, take its configuration, say farewell.

The invariants: a Master that cannot be reached never stops the Broker from serving; a configuration is reported back
as soon as it is in force, and a change of the Broker's own condition as soon as it is known, not a period later; every
wait and every try is bounded, and what went wrong last is shown in the Broker's health.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from pytubemq._version import __version__
from pytubemq.broker.topics import MasterConfig
from pytubemq.core.retry import Backoff
from pytubemq.errors import Code, FormatError, RequestTimeoutError, StorageError, TubeError, refused
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import DEFAULT_REQUEST_TIMEOUT_S, MAX_HEARTBEAT_WAIT_S
from pytubemq.wire.extensions import Capability
from pytubemq.wire.messages.master import (
    CloseRequestB2M,
    CloseResponseM2B,
    ClusterConfig,
    HeartRequestB2M,
    HeartResponseM2B,
    RegisterRequestB2M,
    RegisterResponseM2B,
)
from pytubemq.wire.methods import Method

if TYPE_CHECKING:
    from pytubemq.model.ids import Address
    from pytubemq.net.masters import MasterClient

logger = logging.getLogger(__name__)

_BACKOFF: Final = Backoff(first_s=0.2, most_s=5.0)
_UNHELD_PAUSE_S: Final = 0.2
"""Between heartbeats that a Master was asked to hold and did not, so that the two never spin."""
_FAREWELL_TIMEOUT_S: Final = 1.0
_NO_TLS_PORT: Final = 8124
_SELF_STOPPED: Final = -1

Apply = Callable[[MasterConfig], Awaitable[None]]
"""Puts a configuration on disk and in force; FormatError or StorageError if it cannot."""
Stopped = Callable[[bool, bool], None]
"""Told whether the Master has stopped reads, and writes."""


@dataclass(frozen=True, slots=True)
class Condition:
    """How the Broker itself is, as the Master is told."""

    writes_off: bool = False
    """It takes no messages until somebody has mended it."""
    problems: tuple[str, ...] = ()

    @property
    def write_status(self) -> int:
        """The original's `writeStatusRpt`: 0, or -1 for a Broker that has stopped its writes itself."""
        return _SELF_STOPPED if self.writes_off else 0


@dataclass(slots=True)
class SessionHealth:
    """How this Broker stands with the Master."""

    registered: bool = False
    problem: str | None = None
    heartbeats: int = 0
    failures: int = 0


class MasterSession:
    """Keeps the Broker registered. `run` is a task of the service; `join` may be called once before it."""

    def __init__(
        self,
        *,
        broker_id: int,
        advertised: Address,
        masters: MasterClient,
        config: MasterConfig,
        apply: Apply,
        stopped: Stopped,
        heartbeat_period_s: float,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.health = SessionHealth()
        self._broker_id = broker_id
        self._client_id = f"{broker_id}:{advertised.host}:{advertised.port}:{__version__}"
        self._masters = masters
        self._config = config
        self._apply = apply
        self._stopped = stopped
        self._period_s = heartbeat_period_s
        self._rng = rng
        self._report = True
        """Whether the next heartbeat tells the configuration in force."""
        self._condition = Condition()
        self._news = asyncio.Event()
        """The condition is another than the last heartbeat told."""

    def tell(self, condition: Condition) -> None:
        """What the heartbeats say about the Broker from now on; the Master hears of a change at once."""
        if condition != self._condition:
            self._condition = condition
            self._news.set()

    async def join(self, *, timeout_s: float) -> bool:
        """Register and report once; False if that did not work, which `run` will then try again."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._register()
                await self._heartbeat(wait_s=0.0)
        except TimeoutError:
            self._failed(RequestTimeoutError(f"the Master did not take this Broker within {timeout_s:g} s"))
            return False
        except TubeError as error:
            self._failed(error)
            return False
        return True

    async def run(self) -> None:
        """Heartbeat until cancelled; register anew whenever the Master does not know us."""
        attempt = 0
        while True:
            try:
                if self.health.registered:
                    await self._beat()
                else:
                    await self._register()
                attempt = 0
            except Exception as error:
                attempt += 1
                self._failed(error)
                await asyncio.sleep(_BACKOFF.delay_s(attempt, self._rng))

    async def leave(self) -> None:
        """Tell the Master that this Broker stops; whether it hears it or not, this ends soon."""
        if not self.health.registered:
            return
        self.health.registered = False
        with contextlib.suppress(TubeError, TimeoutError):
            async with asyncio.timeout(_FAREWELL_TIMEOUT_S):
                await self._masters.request(
                    CloseRequestB2M(broker_id=str(self._broker_id)),
                    CloseResponseM2B,
                    Method.BROKER_CLOSE_B2M,
                    timeout_s=_FAREWELL_TIMEOUT_S,
                )

    # --- inside ---------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        config = self._config
        answer = await self._masters.request(
            RegisterRequestB2M(
                client_id=self._client_id,
                broker_online=False,
                enable_tls=False,
                read_status_rpt=0,
                write_status_rpt=self._condition.write_status,
                cur_broker_conf_id=config.conf_id,
                conf_check_sum_id=config.check_sum,
                broker_default_conf_info=config.default_conf,
                broker_topic_set_conf_info=config.topic_confs,
                flow_check_id=UNDEFINED,
                qry_priority_id=UNDEFINED,
                tls_port=_NO_TLS_PORT,
                cls_config=ClusterConfig(config_id=config.cluster_id),
            ),
            RegisterResponseM2B,
            Method.BROKER_REGISTER_B2M,
            timeout_s=DEFAULT_REQUEST_TIMEOUT_S,
        )
        if not answer.success:
            raise refused(answer.err_code, f"the Master refuses Broker {self._broker_id}: {answer.err_msg}")
        self._stopped(answer.stop_read, answer.stop_write)
        await self._take(
            answer.cls_config,
            conf_id=answer.cur_broker_conf_id,
            check_sum=answer.conf_check_sum_id,
            default_conf=answer.broker_default_conf_info,
            topic_confs=answer.broker_topic_set_conf_info,
        )
        self._report = True
        if not self.health.registered:
            logger.info("Broker %d is registered at Master %s", self._broker_id, self._masters.current)
        self.health.registered = True
        self.health.problem = None

    async def _beat(self) -> None:
        """One heartbeat, and the pause that belongs to it."""
        connection = self._masters.peek()
        held = connection is not None and Capability.HEARTBEAT_WAIT in connection.capabilities
        reporting = self._report
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        news = await self._heartbeat(wait_s=0.0 if reporting or not held else MAX_HEARTBEAT_WAIT_S)
        if news or not self.health.registered:
            return
        if not held:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period_s):
                    await self._news.wait()
        elif not reporting and loop.time() - started_s < _UNHELD_PAUSE_S:
            await asyncio.sleep(_UNHELD_PAUSE_S)

    async def _heartbeat(self, *, wait_s: float) -> bool:
        """Send one heartbeat; True if the next one is to follow at once."""
        config, report = self._config, self._report
        self._news.clear()
        answer = await self._ask(
            HeartRequestB2M(
                broker_id=str(self._broker_id),
                broker_online=True,
                read_status_rpt=0,
                write_status_rpt=self._condition.write_status,
                cur_broker_conf_id=config.conf_id,
                conf_check_sum_id=config.check_sum,
                take_conf_info=report,
                take_removed_topic_info=False,
                broker_default_conf_info=config.default_conf if report else None,
                broker_topic_set_conf_info=config.topic_confs if report else (),
                flow_check_id=UNDEFINED,
                qry_priority_id=UNDEFINED,
                cls_config=ClusterConfig(config_id=config.cluster_id),
                max_wait_ms=int(wait_s * 1000) or None,
                problems=self._condition.problems,
            ),
            timeout_s=DEFAULT_REQUEST_TIMEOUT_S + wait_s,
        )
        if answer is None:
            return True
        if not answer.success:
            self.health.registered = False
            if answer.err_code == Code.HB_NO_NODE:
                logger.info("the Master does not know Broker %d any more, registering anew", self._broker_id)
                return True
            raise refused(answer.err_code, f"the Master refuses the heartbeat: {answer.err_msg}")
        self.health.heartbeats += 1
        self._report = answer.need_report_data
        self._stopped(answer.stop_read, answer.stop_write)
        news = await self._take(
            answer.cls_config,
            conf_id=answer.cur_broker_conf_id,
            check_sum=answer.conf_check_sum_id,
            default_conf=answer.broker_default_conf_info if answer.take_conf_info else None,
            topic_confs=answer.broker_topic_set_conf_info,
        )
        self._report = self._report or news
        self.health.problem = None
        return self._report

    async def _ask(self, heartbeat: HeartRequestB2M, *, timeout_s: float) -> HeartResponseM2B | None:
        """The Master's answer; None when there is news of ours to tell while the Master still holds the heartbeat."""
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

    async def _take(
        self,
        cluster: ClusterConfig | None,
        *,
        conf_id: int | None,
        check_sum: int | None,
        default_conf: str | None,
        topic_confs: tuple[str, ...],
    ) -> bool:
        """Put what the Master sent in force; True if that changed anything."""
        changed = self._config
        if cluster is not None and cluster.config_id != changed.cluster_id:
            size = cluster.max_msg_size or changed.max_message_bytes
            changed = msgspec.structs.replace(changed, cluster_id=cluster.config_id, max_message_bytes=size)
        if default_conf is not None and default_conf.strip():
            changed = msgspec.structs.replace(
                changed,
                conf_id=changed.conf_id if conf_id is None else conf_id,
                check_sum=changed.check_sum if check_sum is None else check_sum,
                default_conf=default_conf,
                topic_confs=topic_confs,
            )
        if changed == self._config:
            return False
        try:
            await self._apply(changed)
        except FormatError as error:
            raise FormatError(f"the Master sent a configuration that cannot be used: {error}") from error
        except OSError as error:
            raise StorageError(
                f"the topics cannot be written to the data directory: {error.strerror or error}",
                hint="make space or repair the disk; the Broker tries again by itself",
            ) from error
        self._config = changed
        return True

    def _failed(self, error: Exception) -> None:
        self.health.failures += 1
        expected = isinstance(error, TubeError)
        problem = error.message if isinstance(error, TubeError) else f"{type(error).__name__}: {error}"
        if self.health.problem != problem:  # once per cause, not once per try
            logger.warning(
                "Broker %d and the Master: %s; serving on, trying again",
                self._broker_id,
                problem,
                exc_info=None if expected else error,
            )
        self.health.problem = problem
