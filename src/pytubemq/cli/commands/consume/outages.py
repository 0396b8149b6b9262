"""Reports on the Master and the Brokers of a topic that stop responding while its messages are waited for.

The invariant: each outage is reported once, and its end once; a failed check never disturbs the consumer.
"""

from __future__ import annotations

import asyncio
import contextlib
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pytubemq.cli.commands.consume.brokers import answers, named
from pytubemq.errors import TransportError, TubeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from pytubemq.cli.options import GlobalOptions
    from pytubemq.client.tube import Tube
    from pytubemq.model.ids import Partition

PERIOD_S: Final = 4.0
"""The time between two rounds."""
TAIL_PERIOD_S: Final = 1.0
"""The time between two rounds of a reader without a group, which has no session whose loss would be noticed."""
WITHIN_S: Final = 2.0
"""The time that each may take to respond."""
ROUNDS: Final = 2
"""The rounds without a response after which a server is reported: one may be due to a restart."""


class Outages:
    """Checks the Master and the Brokers in rounds; `master` has the Masters' addresses (`host:port[,...]`)."""

    def __init__(
        self,
        options: GlobalOptions,
        tube: Tube,
        master: str,
        topic: str,
        *,
        period_s: float = PERIOD_S,
        is_watched: Callable[[int], bool] = lambda broker_id: True,
    ) -> None:
        """`is_watched` says of a Broker whether it is checked now."""
        self._options = options
        self._tube = tube
        self._topic = topic
        self._period_s = period_s
        self._is_watched = is_watched
        self._within_s = min(WITHIN_S, options.timeout_s)
        self._master = f"Master at {master}"
        self._partitions: Sequence[Partition] = ()
        self._missed: dict[str, int] = {}
        """The rounds in a row without a response, by server."""

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch for as long as the block lasts."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def master_answers(self) -> bool:
        """Return False, and report it, if no Master responds now."""
        there = await self._ask_master()
        if not there and self._missed.get(self._master, 0) < ROUNDS:
            self._missed[self._master] = ROUNDS
            self._say_lost(self._master)
        return there

    async def _watch(self) -> None:
        while True:
            doubted = any(missed < ROUNDS for missed in self._missed.values())
            await asyncio.sleep(self._period_s / 4 if doubted else self._period_s)
            there = await self._ask_master()
            self._count(self._master, there)
            if not there:
                continue  # a Broker's silence proves nothing now: requests to it may need the Master
            by_broker = {
                key: list(of) for key, of in groupby(self._partitions, attrgetter("broker_id")) if self._is_watched(key)
            }
            asked = [answers(self._tube, of, within_s=self._within_s) for of in by_broker.values()]
            found = await asyncio.gather(*asked)
            for broker_id, there in zip(by_broker, found, strict=True):
                self._count(named(self._tube, broker_id), there)

    async def _ask_master(self) -> bool:
        try:
            async with asyncio.timeout(self._within_s):
                self._partitions = await self._tube.partitions(self._topic)
        except (TransportError, TimeoutError):
            return False
        except TubeError:
            self._partitions = ()  # it answers; a topic that is gone is reported elsewhere
        return True

    def _count(self, name: str, there: bool) -> None:
        missed = self._missed.pop(name, 0)
        if not there:
            self._missed[name] = missed + 1
            if missed + 1 == ROUNDS:
                self._say_lost(name)
        elif missed >= ROUNDS:
            self._options.say(f"{name} responds again")

    def _say_lost(self, name: str) -> None:
        is_master = name == self._master
        self._options.say(f"no {name.replace(' at', ' responds at', 1)}; retrying" if is_master else
                          f"{name} does not respond; its partitions wait")  # fmt: skip
