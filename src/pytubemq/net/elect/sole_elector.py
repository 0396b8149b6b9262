"""The election where there is one Master only: it leads from the start to the end."""

from __future__ import annotations

import asyncio
from typing import Final

from pytubemq.errors import ClosedError

SOLE_EPOCH: Final = 1


class SoleElector:
    """`Elector` of a Master without standbys."""

    def __init__(self, holder: str = "") -> None:
        self._holder = holder
        self._leads = False
        self._ended = asyncio.Event()

    @property
    def leads(self) -> bool:
        return self._leads

    @property
    def leader(self) -> str:
        return self._holder if self._leads else ""

    async def lead(self) -> int:
        if self._ended.is_set():
            raise ClosedError("the election was closed")
        self._leads = True
        return SOLE_EPOCH

    async def until_lost(self) -> str:
        await self._ended.wait()
        return "it was closed"

    async def close(self) -> None:
        self._leads = False
        self._ended.set()
