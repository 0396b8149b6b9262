"""A client's membership at the Master, kept up by `core.session`'s table.

The invariants: while it runs the client is registered or on its way to be; what the table calls final is raised, not
retried; the first registration honours `first_connect`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Protocol

from pytubemq.client.session.events import Connected, Lost
from pytubemq.client.session.registration_backoff import MASTER_BACKOFF
from pytubemq.core.session import Action, Fact, Phase, fact_of, step
from pytubemq.errors import ClosedError, TubeError
from pytubemq.model.limits import HEARTBEAT_PERIOD_S

if TYPE_CHECKING:
    from pytubemq.client.session.cluster_connection import Cluster

logger = logging.getLogger(__name__)

GOODBYE_TIMEOUT_S = 1.0
HELD_S = 0.25
"""Seconds after which a response counts as held."""


class LongPollPause:
    """The pause after a heartbeat that the Master was allowed to hold.

    One that was held is followed at once by the next; one that was answered at once, too, unless that happens again
    and again: then this Master does not hold, or always has news, and is not asked in a spin.
    """

    def __init__(self) -> None:
        self._quick = 0

    def pause_s(self, took_s: float) -> float:
        """Return the pause after a response that took this long."""
        self._quick = 0 if took_s >= HELD_S else self._quick + 1
        return 0.0 if not self._quick else min(HEARTBEAT_PERIOD_S, 0.01 * 4.0 ** min(self._quick - 1, 8))

    def reset(self) -> None:
        """Reset after news: the next response may be quick again."""
        self._quick = 0


class Role(Protocol):
    """The requests of a producer or a consumer to the Master."""

    client_id: str

    async def register(self) -> None:
        """Register; raise if the Master refuses."""
        ...

    async def heartbeat(self) -> float:
        """Send a heartbeat and act on the response; return the pause before the next one in seconds."""
        ...

    async def goodbye(self) -> None:
        """Leave the Master."""
        ...


class ConsumingRole(Role, Protocol):
    """The requests of a consumer to the Master, whoever assigns the partitions."""

    def report_soon(self) -> None:
        """Report the partitions with the next heartbeat."""
        ...


class Membership:
    """The state machine that drives one role."""

    def __init__(self, cluster: Cluster, role: Role) -> None:
        self.phase = Phase.NEW
        self._cluster = cluster
        self._role = role
        self._action = Action.NOTHING
        self._attempt = 0
        """Failures since a heartbeat was accepted."""
        self._poke = asyncio.Event()
        self._error: BaseException | None = None
        self._lost = False

    async def start(self, *, patient: bool) -> None:
        """Register; `patient` retries while the Master cannot be reached or is not ready."""
        self._advance(Fact.START)
        while self.phase is not Phase.ACTIVE:
            await self._turn()
            if self._error is not None and not patient:
                raise self._error

    async def run(self) -> None:
        """Keep up the membership until closed.

        Raises:
            TubeError: the Master refuses this client for good.
        """
        while self.phase not in (Phase.CLOSED, Phase.FAILED):
            await self._turn()

    def poke(self) -> None:
        """Send the next heartbeat now instead of after its pause."""
        self._poke.set()

    async def close(self) -> None:
        """Leave the Master, within a second. Idempotent."""
        if self._advance(Fact.CLOSE) is not Action.SAY_GOODBYE:
            return
        with contextlib.suppress(TubeError, TimeoutError):
            async with asyncio.timeout(GOODBYE_TIMEOUT_S):
                await self._role.goodbye()

    async def _turn(self) -> None:
        action = self._action
        if action in (Action.REGISTER_LATER, Action.HEARTBEAT_LATER):
            await self._pause(MASTER_BACKOFF.delay_s(self._attempt, self._cluster.rng))
        elif action is Action.REGISTER and self._attempt > 1:
            # Forgotten again before a heartbeat was accepted: a Master that goes on so is not asked in a spin.
            await self._pause(MASTER_BACKOFF.delay_s(self._attempt - 1, self._cluster.rng))
        try:
            if action in (Action.REGISTER, Action.REGISTER_LATER):
                await self._role.register()
                pause_s = 0.0
            else:
                pause_s = await self._role.heartbeat()
        except ClosedError:
            raise
        except TubeError as error:
            self._handle_failure(error)
            return
        self._handle_success(registered=action in (Action.REGISTER, Action.REGISTER_LATER))
        if pause_s > 0:
            await self._pause(pause_s)

    def _handle_failure(self, error: TubeError) -> None:
        self._error = error
        self._attempt += 1
        if not self._lost:
            self._lost = True
            self._cluster.emit(Lost(self._role.client_id, error, self._cluster.masters.current))
        logger.info("%s: %s", self._role.client_id, error.message)
        if self._advance(fact_of(error)) is Action.GIVE_UP:
            raise error

    def _handle_success(self, *, registered: bool) -> None:
        self._error = None
        if not registered:
            self._attempt = 0
        if registered or self._lost:
            self._lost = False
            self._cluster.emit(Connected(self._role.client_id, self._cluster.masters.current))
        self._advance(Fact.ACCEPTED)

    async def _pause(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._poke.wait()
        self._poke.clear()

    def _advance(self, fact: Fact) -> Action:
        self.phase, self._action = step(self.phase, fact)
        return self._action
