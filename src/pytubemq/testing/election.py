"""An election inside one process whose lease ends when a test says so."""

from __future__ import annotations

import asyncio

from pytubemq.errors import ClosedError


class TrialElection:
    """An election; `stand` makes one more `Elector` of it."""

    def __init__(self) -> None:
        self.epoch = 0
        self._leading: TrialElector | None = None
        self._changed = asyncio.Event()

    def stand(self, holder: str) -> TrialElector:
        """Return an elector of the Master at the address `holder`."""
        return TrialElector(self, holder)

    def expire(self) -> None:
        """Let the leader lose its lease, as if it had not been able to renew it."""
        if self._leading is not None:
            self._leading.end("its lease was not renewed in time")

    @property
    def leading(self) -> TrialElector | None:
        """The elector that leads."""
        return self._leading

    async def take(self, elector: TrialElector) -> int:
        """Wait until nobody leads, and let this one lead."""
        while self._leading is not None and not elector.ended.is_set():
            self._changed.clear()
            await self._changed.wait()
        if elector.ended.is_set():
            raise ClosedError("the election was closed")
        self._leading = elector
        self.epoch += 1
        return self.epoch

    def leave(self, elector: TrialElector) -> None:
        """Let another one lead after this one; wake those that wait."""
        if self._leading is elector:
            self._leading = None
        self._changed.set()


class TrialElector:
    """`Elector` of a `TrialElection`."""

    def __init__(self, election: TrialElection, holder: str) -> None:
        self.ended = asyncio.Event()
        self.holder = holder
        self._election = election
        self._reason = ""

    @property
    def leads(self) -> bool:
        return self._election.leading is self

    @property
    def leader(self) -> str:
        leading = self._election.leading
        return "" if leading is None else leading.holder

    async def lead(self) -> int:
        return await self._election.take(self)

    async def until_lost(self) -> str:
        await self.ended.wait()
        return self._reason

    async def close(self) -> None:
        self.end("it was closed")

    def end(self, reason: str) -> None:
        """Lead no more, or stand no more."""
        if not self.ended.is_set():
            self._reason = reason
            self.ended.set()
        self._election.leave(self)
