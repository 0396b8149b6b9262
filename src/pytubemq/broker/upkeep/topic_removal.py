"""Topics that the Master takes away from this Broker for good: served no more, then off the disk, then reported.

The invariants: a topic's data goes only while the Master lists the topic, and only when nothing of it is on its way to
the disk any more; a topic is not served while it is being removed, also when the Master has brought it back meanwhile;
what cannot be removed now, for whatever reason, is tried again, and shown.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.broker.append.submission import Barrier
from pytubemq.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.broker.refusal import Refusal
    from pytubemq.broker.state import BrokerState

logger = logging.getLogger(__name__)

_RETRY_S: Final = 2.0


class TopicRemoval:
    """Removes what it is told to, one topic after the other. `run` is a task of the service. Event loop only."""

    def __init__(self, state: BrokerState, *, on_change: Callable[[], None]) -> None:
        """`on_change` is called whenever `hidden` is another: the topics served are to be looked at again."""
        self._state = state
        self._on_change = on_change
        self._listed: frozenset[str] = frozenset()
        self._done: set[str] = set()
        self._under_way: str | None = None
        self._news = asyncio.Event()
        self.problem: str | None = None
        """Why the last topic could not be removed; None after one that could."""

    @property
    def hidden(self) -> frozenset[str]:
        """Topics that are not served, whatever the configuration says."""
        return self._listed if self._under_way is None else self._listed | {self._under_way}

    @property
    def done(self) -> tuple[str, ...]:
        """What is removed and still listed."""
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
        """Remove what is listed until cancelled."""
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
                if refusal is not None and self._state.path.full is None:
                    return self._failed(topic, refusal.text)
                # On a full disk nothing that came in before is on its way either: it was refused. To remove the topic
                # is what makes room, and takes its positions along.
                quiet = self._state.positions.forget(topic) or refusal is not None
            if topic not in self._listed:
                return True
            self._state.store.forget_owed(topic)
            await asyncio.get_running_loop().run_in_executor(None, self._state.store.drop, topic)
        except StorageError as error:
            return self._failed(topic, error.message)
        except Exception as error:
            logger.exception("the removal of topic %s has failed", topic)
            return self._failed(topic, f"{type(error).__name__}: {error}")
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
        """End what consumers hold of the topic, and let those who wait there hear of it."""
        state = self._state
        for hold in [hold for hold in state.registry.holds() if hold.key.topic == topic]:
            state.registry.drop(hold)
        for key in [key for key in state.read_faults if key[0] == topic]:
            del state.read_faults[key]
        state.waiters.wake([key for key in state.store.partitions() if key[0] == topic])

    async def _written(self) -> Refusal | None:
        """Wait until all that came in before is written; the refusal if writing is not possible."""
        written: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()

        def ended(refusal: Refusal | None) -> None:
            if not written.done():
                written.set_result(refusal)

        self._state.path.submit(Barrier(ended))
        return await written

    def _failed(self, topic: str, text: str) -> bool:
        problem = f"topic {topic} cannot be removed yet: {text}"
        if problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem
        return False
