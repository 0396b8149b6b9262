"""The Brokers of a topic that respond: all are queried at once.

The invariant: a Broker that is away delays nothing that others have, and is named soon.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Self

from pytubemq.errors import ConfigError, NotFoundError, TransportError, TubeError, UnavailableError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from pytubemq.cli.options import GlobalOptions
    from pytubemq.client.tube import Tube
    from pytubemq.model.ids import Partition

SAID_AFTER_S = 2.0
"""The time after which a message names a Broker that is waited for."""
TOGETHER_S = 1.0
"""Brokers that respond within this time come in the order of their ids."""
SILENT_S = 1.5
"""A Broker without a response within this time is reported as not responding."""
CANNOT_BE_READ = (ConfigError, UnavailableError, UnreachableError)
"""The errors of a Broker of the original, one that the Master does not know, one that is away."""


class BrokerRound:
    """Queries every Broker that has some of these partitions for their offsets, while the block lasts."""

    def __init__(
        self, options: GlobalOptions, tube: Tube, partitions: Sequence[Partition], *, said_after_s: float = SAID_AFTER_S
    ) -> None:
        self._options = options
        self._tube = tube
        self.partitions = {key: list(of) for key, of in groupby(sorted(partitions), attrgetter("broker_id"))}
        """The partitions of each Broker."""
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
        """Return the reason why a Broker cannot be read; None once it has responded."""
        return await asyncio.shield(self._asked[broker_id])

    async def next(self) -> tuple[int, TubeError | None] | None:
        """Return the next Broker that has responded, with the reason if it cannot be read; None after the last."""
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
        except NotFoundError as error:
            broker = named(self._tube, partitions[0].broker_id)
            error.hint = error.hint or (
                f"{broker} is probably away, and another Broker answers at its address:  pytubemq cluster health"
            )
            raise
        return None

    async def _tell(self) -> None:
        await asyncio.sleep(self._said_after_s)
        silent = [broker for broker, task in self._asked.items() if not task.done()]
        for broker in silent:
            self._options.say(
                f"waiting for {named(self._tube, broker)}, up to {self._options.timeout_s:g} s (--timeout)"
            )


def named(tube: Tube, broker_id: int) -> str:
    """Return a Broker with the address from the Master, if there is one."""
    address = {info.broker_id: info.address for info in tube.brokers}.get(broker_id)
    return f"Broker {broker_id}" if address is None else f"Broker {broker_id} at {address}"


async def answers(tube: Tube, of: Sequence[Partition], *, within_s: float) -> bool:
    """Return True if the Broker of these partitions responds within a time."""
    try:
        async with asyncio.timeout(within_s):
            await tube.offsets(of)
    except (UnavailableError, TransportError, TimeoutError):
        return False
    except TubeError:
        pass  # it responded: a Broker of the original does not support this request
    return True


def none_answers(topic: str, silent: Sequence[str]) -> UnreachableError:
    """Return the error for a topic whose Brokers (`silent_brokers`) are all away."""
    return UnreachableError(
        f"no Broker of topic {topic!r} answers: {', '.join(silent)}",
        hint=f"check the state of each:  pytubemq topic show {topic}",
    )


async def silent_brokers(tube: Tube, topic: str, *, within_s: float) -> tuple[list[str], int]:
    """Return the Brokers of a topic that do not respond, and its number of Brokers; none if the Master is away."""

    try:
        async with asyncio.timeout(within_s):
            partitions = await tube.partitions(topic)
    except (TubeError, TimeoutError):
        return [], 0
    by_broker = {key: list(of) for key, of in groupby(partitions, attrgetter("broker_id"))}
    found = await asyncio.gather(*(answers(tube, of, within_s=within_s) for of in by_broker.values()))
    return [named(tube, broker) for broker, there in zip(by_broker, found, strict=True) if not there], len(by_broker)
