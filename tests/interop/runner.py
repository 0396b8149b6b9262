"""Runs the cells asked for, all at the same time, on one loop in a thread of its own.

The invariant: a cell is begun once; whoever asks for it gets its numbers or its error.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from .bench import Bench
from .driver import Driver
from .fetch import fetch
from .rows import MASTER_RESTARTS, ROWS, STAGES
from .system import System

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from .system import Column

T = TypeVar("T")
CELL_TIMEOUT_S = 900.0
CLOSE_TIMEOUT_S = 60.0


@dataclass
class Result:
    """What a cell gave."""

    passed: bool
    seconds: float
    numbers: dict[str, Any] = field(default_factory=dict)
    error: str = ""


class Runner:
    """The system, the driver and the cells of one run."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="interop", daemon=True)
        self._system: System | None = None
        self._driver: Driver | None = None
        self._drivers: list[Driver] = []
        self._benches: dict[str, Bench] = {}
        self._cells: dict[tuple[str, str], asyncio.Task[dict[str, Any]]] = {}
        self.results: dict[tuple[str, str], Result] = {}

    def start(self, cells: list[tuple[str, str]]) -> None:
        """Start what the cells (row, column) need, and begin them; they run on when this returns."""
        java = fetch()
        self._thread.start()
        self._do(self._start(System(java, self._home), Driver(java, self._home / "driver.log"), cells))

    def result(self, row: str, column: str) -> dict[str, Any]:
        """The numbers of a cell, when it is done.

        Raises:
            Exception: what the cell failed with.
        """
        found: dict[str, Any] = self._do(self._result(row, column))
        return found

    def column(self, name: str) -> Column:
        """A column that a cell was asked for in."""
        assert self._system is not None
        return self._system.columns[name]

    def do(self, job: Callable[[Bench], Awaitable[T]], column: str) -> T:
        """What something comes to that is done in a column, beside the cells."""

        async def done() -> T:
            bench = self._benches[column].for_cell()
            try:
                return await job(bench)
            finally:
                await bench.close()

        found: T = self._do(done())
        return found

    def close(self) -> None:
        """End everything."""
        if self._thread.is_alive():
            self._do(asyncio.wait_for(self._close(), CLOSE_TIMEOUT_S))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def _do(self, job: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(job, self._loop).result()

    async def _start(self, system: System, driver: Driver, cells: list[tuple[str, str]]) -> None:
        self._system, self._driver = system, driver
        self._drivers.append(driver)
        await asyncio.gather(system.start({column for _, column in cells}), driver.start())
        self._benches = {
            name: Bench(system, column, driver, self._new_driver) for name, column in system.columns.items()
        }
        system.sharing = sum(row in MASTER_RESTARTS and system.columns[column].java_master for row, column in cells)
        for stage in STAGES:
            before = dict(self._cells)
            for row, column in cells:
                if row in stage:
                    waits = [cell for (_, where), cell in before.items() if self._same_master(where, column)]
                    self._cells[row, column] = asyncio.create_task(self._cell(row, column, waits))

    def _same_master(self, one: str, other: str) -> bool:
        assert self._system is not None
        return self._system.columns[one].master is self._system.columns[other].master

    async def _new_driver(self, name: str) -> Driver:
        assert self._driver is not None
        driver = Driver(self._driver.java, self._home / f"driver-{name}.log", heap="256m")
        self._drivers.append(driver)
        return await driver.start()

    async def _cell(self, row: str, column: str, waits: list[asyncio.Task[dict[str, Any]]]) -> dict[str, Any]:
        assert self._system is not None
        await self._system.ready(column)
        await asyncio.gather(*waits, return_exceptions=True)
        started_s = time.monotonic()
        bench = self._benches[column].for_cell()
        numbers: dict[str, Any] = {}
        error = "it was not finished"
        try:
            async with asyncio.timeout(CELL_TIMEOUT_S):
                numbers = await ROWS[row](bench)
            error = ""
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            took_s = round(time.monotonic() - started_s, 1)
            self.results[row, column] = Result(not error, took_s, numbers, error)
            with (self._home / "cells.log").open("a") as log:
                log.write(f"{time.strftime('%H:%M:%S')} {column} | {row} | {took_s} s | {error or numbers}\n")
            await bench.close()
        return numbers

    async def _result(self, row: str, column: str) -> dict[str, Any]:
        return await asyncio.shield(self._cells[row, column])

    async def _close(self) -> None:
        for cell in self._cells.values():
            cell.cancel()
        await asyncio.gather(*self._cells.values(), return_exceptions=True)
        await asyncio.gather(*(driver.kill() for driver in self._drivers))
        if self._system is not None:
            await self._system.close()
