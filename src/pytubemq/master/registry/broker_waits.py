"""The waits of changes to topics and permissions until Brokers have applied them.

The invariants: every wait is bounded, each Broker has its own time; nobody waits for a Broker that leaves meanwhile, is
silent or was late before, as long as there is another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.errors import Code, UnavailableError
from pytubemq.master.brokers.registration.claims import is_heard
from pytubemq.model.limits import FOREIGN_CONNECTION_GRACE_S
from pytubemq.model.records import ManageStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.settings import MasterSettings
    from pytubemq.net.clock import Clock

logger = logging.getLogger(__name__)

IN_USE: Final = (ManageStatus.ONLINE, ManageStatus.ONLY_READ, ManageStatus.ONLY_WRITE)
"""States of Brokers that get new topics."""


class BrokerWaits:
    """Waits for Brokers; `changed` is called after anything that may end one."""

    def __init__(self, catalogue: Catalogue, brokers: Brokers, settings: MasterSettings, clock: Clock) -> None:
        self._catalogue = catalogue
        self._brokers = brokers
        self._settings = settings
        self._clock = clock
        self._started_s = clock.now_s()
        self._change = asyncio.Event()
        brokers.on_access_learned = self.changed

    def changed(self) -> None:
        """Wake the waits: a record, or a Broker's report, has changed."""
        self._change.set()

    def is_online(self, broker_id: int) -> bool:
        """True if a Broker is registered and ready."""
        run = self._brokers.runs.get(broker_id)
        return run is not None and run.online

    def late(self, topic: str, online: Iterable[int]) -> list[int]:
        """Return those of these Brokers that have not reported the topic with all its partitions."""
        places = self._catalogue.deployed(topic)
        configs = {broker: self._catalogue.config(places[broker]) for broker in online if broker in places}
        return [broker for broker, config in configs.items() if not self._brokers.topics.carries(broker, config)]

    def behind(self, online: Iterable[int]) -> list[int]:
        """Return those of these Brokers that have not reported the configuration that they were given last."""
        runs = {broker: self._brokers.runs.get(broker) for broker in online}
        return [broker for broker, run in runs.items() if run is None or not run.in_sync]

    # --- waits --------------------------------------------------------------------------------------------------

    async def until_first_broker(self) -> None:
        """Wait until a Broker in use is online, if this Master has just started.

        The Brokers of a cluster that starts as a whole register a moment after their Master, or find it again after
        its restart.
        """
        left_s = self._started_s + self._settings.first_broker_wait_s - self._clock.now_s()
        if left_s > 0:
            await self._wait_while(lambda: not self._is_any_in_use(), left_s)

    async def until_served(self, broker_id: int, *, timeout_s: float) -> bool:
        """Wait until a Broker is online and has reported all its topics; return False if it has not in time."""

        def left() -> bool:
            return not self.is_online(broker_id) or any(
                broker_id in self.late(place.topic, [broker_id])
                for place in self._catalogue.deployed_on(broker_id)
                if not place.topic_status.removed
            )

        await self._wait_while(left, timeout_s)
        return not left()

    async def until_ready(
        self,
        what: str,
        done: str,
        online: Collection[int],
        left: Callable[[], list[int]],
        *,
        some: bool = False,
        hint: str = "it is in force there once the Broker reports it: see `pytubemq topic show`",
    ) -> None:
        """Wait for the Brokers that `left` returns, each for its own time; with `some`, one that is ready is enough.

        Raises:
            UnavailableError: Brokers did not report it in time.
        """
        begun_s = self._clock.now_s()
        late = {broker_id for broker_id in online if self._is_passed_over(broker_id)}
        if late.issuperset(online):
            late.clear()

        def awaited() -> list[int]:
            behind = [one for one in left() if one not in late]
            return [one for one in behind if self.is_online(one)] if self._is_any(online) else behind

        while behind := awaited():
            until_s = {one: self._patience_s(one, begun_s) for one in behind}
            now_s = self._clock.now_s()
            if over := [one for one in behind if until_s[one] <= now_s]:
                late.update(over)
                for one in over:
                    self._brokers.note_overdue(one)
                continue
            await self._wait_while(awaited, min(until_s.values()) - now_s)
        waiting = [one for one in left() if one in late or self.is_online(one)] or (
            [] if self._is_any(online) else left()
        )
        if not waiting:
            return
        if some and not set(waiting).issuperset(one for one in online if self.is_online(one)):
            logger.warning("%s %s, but broker %s has not reported it yet", what, done, listed(waiting))
            return
        passed_s = self._clock.now_s() - begun_s
        # A Broker that is away, silent or was late before is not waited for.
        if passed_s < self._timeout_s(waiting):
            why = "has not reported it yet: it is away, silent, or was late before"
        else:
            why = f"did not report it within {passed_s:.2g} s"
        raise UnavailableError(
            f"{what} {done}, but broker {listed(waiting)} {why}",
            hint=hint,
            code=Code.SERVICE_UNAVAILABLE,
        )

    async def until_access_known(self) -> None:
        """Wait until all Brokers that are online have the current users and permissions.

        Raises:
            UnavailableError: some did not report them in time, and are named; they still check by the previous ones.
        """
        await self.until_ready(
            "the change of access",
            "is made",
            self._brokers.behind_in_access(),
            self._brokers.behind_in_access,
            hint="it is in force there once the Broker reports it; `pytubemq cluster health` shows how it is",
        )

    async def until_removed(self, topic: str) -> None:
        """Wait until the Brokers online have reported that a topic is gone, or until their time is over."""

        def left() -> list[int]:
            return [broker_id for broker_id in self._catalogue.deployed(topic) if self.is_online(broker_id)]

        await self._wait_while(left, self._timeout_s(left()))

    # --- inside -------------------------------------------------------------------------------------------------

    async def _wait_while(self, left: Callable[[], object], timeout_s: float) -> None:
        """Wait until `left` returns nothing, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while left():
                    self._change.clear()
                    await self._change.wait()

    def _is_any(self, broker_ids: Iterable[int]) -> bool:
        """True if one of these Brokers is online."""
        return any(map(self.is_online, broker_ids))

    def _is_any_in_use(self) -> bool:
        """True if a Broker that gets new topics is online."""
        brokers = self._catalogue.brokers.items()
        return any(record.manage_status in IN_USE and self.is_online(broker_id) for broker_id, record in brokers)

    def _is_passed_over(self, broker_id: int) -> bool:
        """True if a Broker is silent, or did not take the last change in time and has taken none since."""
        run = self._brokers.runs.get(broker_id)
        return run is not None and (run.overdue or not is_heard(run, self._clock.now_s()))

    def _patience_s(self, broker_id: int, begun_s: float) -> float:
        """Return the time until which a Broker is waited for; an earlier one if it falls silent."""
        run = self._brokers.runs.get(broker_id)
        until_s = begun_s + self._timeout_s([broker_id])
        return until_s if run is None else min(until_s, max(begun_s, run.heard_s) + FOREIGN_CONNECTION_GRACE_S)

    def _timeout_s(self, broker_ids: Collection[int]) -> float:
        """Return the time that Brokers get; longer if one does not wait with heartbeats and learns of changes late."""
        settings = self._settings
        runs = [self._brokers.runs.get(broker_id) for broker_id in broker_ids]
        if all(run.holds_heartbeats for run in runs if run is not None):
            return settings.topic_ready_timeout_s
        return max(settings.topic_ready_timeout_s, settings.foreign_topic_timeout_s)


def listed(broker_ids: Collection[int]) -> str:
    """Return the ids of Brokers for a sentence, in order."""
    return ", ".join(map(str, sorted(broker_ids)))
