"""Which Brokers of a topic answer: all are asked at once.

The invariant: a Broker that is away holds nothing back that others have, and is named before long.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Self

from pytubemq.errors import ConfigError, TransportError, TubeError, UnavailableError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from pytubemq.cli.options import GlobalOptions
    from pytubemq.client.tube import Tube
    from pytubemq.model.ids import Partition

SAID_AFTER_S = 2.0
"""So long a Broker may take before it is said that it is waited for."""
TOGETHER_S = 1.0
"""Those that answer within it come in the order of their ids."""
SILENT_S = 1.5
"""A Broker that does not answer for so long is said not to answer."""
CANNOT_BE_READ = (ConfigError, UnavailableError, UnreachableError)
"""A Broker of the original, one that the Master does not know, one that is away."""


class BrokerRound:
    """Asks every Broker that has some of these partitions for their offsets, while the block lasts."""

    def __init__(
        self, options: GlobalOptions, tube: Tube, partitions: Sequence[Partition], *, said_after_s: float = SAID_AFTER_S
    ) -> None:
        self._options = options
        self._tube = tube
        self.partitions = {key: list(of) for key, of in groupby(sorted(partitions), attrgetter("broker_id"))}
        """What each Broker has."""
        self._said_after_s = said_after_s
        self._asked: dict[int, asyncio.Task[TubeError | None]] = {}
        self._left: list[int] = []
        self._teller: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._asked = {broker: asyncio.create_task(self._ask(of)) for broker, of in self.partitions.items()}
        self._left = list(self._asked)
        self._teller = asyncio.create_task(self._tell())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [*self._asked.values(), *filter(None, [self._teller])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def answer(self, broker_id: int) -> TubeError | None:
        """Why a Broker cannot be read; None once it has answered."""
        return await asyncio.shield(self._asked[broker_id])

    async def next(self) -> tuple[int, TubeError | None] | None:
        """The next Broker that has answered, or why it cannot be read; None when all have been told."""
        if not self._left:
            return None
        if len(self._left) == len(self._asked):
            await asyncio.wait(self._asked.values(), timeout=TOGETHER_S)
        left = [self._asked[broker] for broker in self._left]
        await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        ready = next(broker for broker in self._left if self._asked[broker].done())
        self._left.remove(ready)
        return ready, self._asked[ready].result()

    async def _ask(self, partitions: Sequence[Partition]) -> TubeError | None:
        try:
            await self._tube.offsets(partitions)
        except CANNOT_BE_READ as error:
            return error
        return None

    async def _tell(self) -> None:
        await asyncio.sleep(self._said_after_s)
        silent = [broker for broker, task in self._asked.items() if not task.done()]
        for broker in silent:
            self._options.say(
                f"waiting for {named(self._tube, broker)}, up to {self._options.timeout_s:g} s (--timeout)"
            )


def named(tube: Tube, broker_id: int) -> str:
    """A Broker with the address that the Master told, if it did."""
    address = {info.broker_id: info.address for info in tube.brokers}.get(broker_id)
    return f"Broker {broker_id}" if address is None else f"Broker {broker_id} at {address}"


async def answers(tube: Tube, of: Sequence[Partition], *, within_s: float) -> bool:
    """Return True if the Broker of these partitions answers within a time."""
    try:
        async with asyncio.timeout(within_s):
            await tube.offsets(of)
    except (UnavailableError, TransportError, TimeoutError):
        return False
    except TubeError:
        pass  # it said something: a Broker of the original cannot tell offsets
    return True


def none_answers(topic: str, silent: Sequence[str]) -> UnreachableError:
    """The error for a topic whose Brokers (`silent_brokers`) are all away."""
    return UnreachableError(
        f"no Broker of topic {topic!r} answers: {', '.join(silent)}",
        hint=f"see what the Master knows of each:  pytubemq topic show {topic}",
    )


async def silent_brokers(tube: Tube, topic: str, *, within_s: float) -> tuple[list[str], int]:
    """The Brokers of a topic that do not answer, by name, and how many it has; none if the Master does not tell."""

    try:
        async with asyncio.timeout(within_s):
            partitions = await tube.partitions(topic)
    except (TubeError, TimeoutError):
        return [], 0
    by_broker = {key: list(of) for key, of in groupby(partitions, attrgetter("broker_id"))}
    found = await asyncio.gather(*(answers(tube, of, within_s=within_s) for of in by_broker.values()))
    return [named(tube, broker) for broker, there in zip(by_broker, found, strict=True) if not there], len(by_broker)
