"""Topics that the Master removes from this Broker: no longer served, then deleted from the disk, then reported.

The invariants: a topic's data is deleted only while the Master lists the topic, and only when none of it is still
being written; a topic is not served while it is being removed, also when the Master has restored it meanwhile; a
removal that fails, for whatever reason, is retried, and shown.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.broker.append.submission import Barrier
from pytubemq.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.broker.state import BrokerState
    from pytubemq.core.refusal import Refusal

logger = logging.getLogger(__name__)

_RETRY_S: Final = 2.0


class TopicRemoval:
    """The removal of listed topics, one after the other. `run` is a task of the service. Event loop only."""

    def __init__(self, state: BrokerState, *, on_change: Callable[[], None]) -> None:
        """Call `on_change` whenever `hidden` changes, so that the served topics are computed again."""
        self._state = state
        self._on_change = on_change
        self._listed: frozenset[str] = frozenset()
        self._done: set[str] = set()
        self._under_way: str | None = None
        self._news = asyncio.Event()
        self.problem: str | None = None
        """The reason why the last topic could not be removed; None after a success."""

    @property
    def hidden(self) -> frozenset[str]:
        """Topics that are not served, whatever the configuration says."""
        return self._listed if self._under_way is None else self._listed | {self._under_way}

    @property
    def removed(self) -> tuple[str, ...]:
        """The topics that are removed and still listed."""
        return tuple(sorted(self._done))

    def set_listed(self, topics: frozenset[str]) -> None:
        """Set the topics that the Master wants removed; one no longer among them is served again if configured."""
        if topics == self._listed:
            return
        self._listed = topics
        self._done &= topics
        self._on_change()
        self._news.set()

    async def run(self) -> None:
        """Remove the listed topics until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            for topic in sorted(self._listed - self._done):
                if topic in self._listed and not await self._remove(topic):
                    await asyncio.sleep(_RETRY_S)
                    self._news.set()

    async def _remove(self, topic: str) -> bool:
        self._under_way = topic
        try:
            self._let_go(topic)
            quiet = False
            while not quiet:
                self._state.positions.forget(topic)
                refusal = await self._written()
                if refusal is not None and self._state.path.errors.full is None:
                    return self._record_failure(topic, refusal.text)
                # On a full disk nothing that came in before is being written either: it was refused. Removing the topic
                # makes room, and removes its positions too.
                quiet = self._state.positions.forget(topic) or refusal is not None
            if topic not in self._listed:
                return True
            self._state.store.forget_owed(topic)
            await asyncio.get_running_loop().run_in_executor(None, self._state.store.drop, topic)
        except StorageError as error:
            return self._record_failure(topic, error.message)
        except Exception as error:
            logger.exception("the removal of topic %s has failed", topic)
            return self._record_failure(topic, f"{type(error).__name__}: {error}")
        finally:
            self._under_way = None
            if topic not in self._listed:
                self._on_change()
        logger.info("topic %s is removed, with its messages and all positions in it", topic)
        self.problem = None
        if topic in self._listed:
            self._done.add(topic)
        return True

    def _let_go(self, topic: str) -> None:
        """End consumers' registrations for the topic, and notify the fetches that wait there."""
        state = self._state
        for registration in [
            registration for registration in state.registry.registrations() if registration.key.topic == topic
        ]:
            state.registry.drop(registration)
        for key in [key for key in state.read_faults if key[0] == topic]:
            del state.read_faults[key]
        state.waiters.wake([key for key in state.store.partitions() if key[0] == topic])

    async def _written(self) -> Refusal | None:
        """Wait until everything submitted before is written; return the refusal if writing is not possible."""
        written: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()

        def finish(refusal: Refusal | None) -> None:
            if not written.done():
                written.set_result(refusal)

        self._state.path.submit(Barrier(finish))
        return await written

    def _record_failure(self, topic: str, text: str) -> bool:
        problem = f"topic {topic} cannot be removed yet: {text}"
        if problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem
        return False
