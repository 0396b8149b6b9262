"""Statistics of calls over HTTP in the original's form: counted from one snapshot to the next.

The invariants: a snapshot is taken at most every SNAPSHOT_S; disabled statistics keep their values and start again when
they are enabled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytubemq.admin.webapi.envelope import date
from pytubemq.observe.histogram import CELLS, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.admin.webapi.envelope import Reply
    from pytubemq.admin.webapi.method import Method
    from pytubemq.admin.webapi.params import Args

A = TypeVar("A")

SNAPSHOT_S: Final = 2.0
NO_LEAST: Final = 2**63 - 1
NO_MOST: Final = -(2**63)
"""The minimum and the maximum that the original shows while there are no calls."""
_MS_CELLS: Final = 18
_FIRST_MS_CELL: Final = 11
"""The cell whose bound is 2 ms, the first of the original's."""


@dataclass(slots=True)
class Since:
    """A histogram since the last snapshot."""

    histogram: Histogram
    before: list[int] = field(default_factory=lambda: [0] * CELLS)

    def snapshot(self) -> None:
        """Count from now on."""
        self.before = list(self.histogram.cells)
        self.histogram.forget_extremes()

    def row(self) -> dict[str, Any]:
        """Return the times in ms, as the original shows them; a percentile is the upper bound of its cell."""
        ours = [now - before for now, before in zip(self.histogram.cells, self.before, strict=True)]
        last = _FIRST_MS_CELL + _MS_CELLS - 1
        cells = [sum(ours[: _FIRST_MS_CELL + 1]), *ours[_FIRST_MS_CELL + 1 : last], sum(ours[last:])]
        count, most = sum(cells), _ms(self.histogram.most_s, NO_MOST)
        return {
            "count": count,
            "min": _ms(self.histogram.least_s, NO_LEAST),
            "max": most,
            "cells": {_cell_name(cell): times for cell, times in enumerate(cells) if times},
            **{name: _percentile(cells, share, most) for name, share in _SHARES.items()},
        }


_SHARES: Final = {"P99": 9_900, "P999": 9_990, "P9999": 9_999}
"""Percentiles under the names of the original, in ten-thousandths."""


def _ms(taken_s: float | None, none: int) -> int:
    return none if taken_s is None else int(taken_s * 1000)


def _cell_name(cell: int) -> str:
    low = 0 if cell == 0 else 1 << cell
    return f"cell_{low}t{'Max' if cell == _MS_CELLS - 1 else 1 << (cell + 1)}"


def _percentile(cells: Sequence[int], share: int, most: int) -> int:
    needed = -(-sum(cells) * share // 10_000)
    if not needed:
        return 0
    reached = 0
    for cell, times in enumerate(cells[:-1]):
        reached += times
        if reached >= needed:
            return min(1 << (cell + 1), most)
    return most


@dataclass(slots=True)
class _Web:
    """The calls of one method."""

    count: int = 0
    least_ms: int = NO_LEAST
    most_ms: int = NO_MOST


class WebStatistics:
    """The calls of one server's methods. Event loop only."""

    def __init__(self, *, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._reset_ms = wall_ms()
        self._frozen: dict[str, Any] | None = None
        """The values that are shown while they are disabled."""
        self._calls = Since(Histogram())
        self._methods: dict[str, _Web] = {}

    def called(self, method: str, taken_s: float) -> None:
        """Count a call of a method."""
        if self._frozen is not None:
            return
        self._calls.histogram.add(taken_s)
        web, taken_ms = self._methods.setdefault(method, _Web()), int(taken_s * 1000)
        web.count += 1
        web.least_ms, web.most_ms = min(web.least_ms, taken_ms), max(web.most_ms, taken_ms)

    def view(self) -> dict[str, Any]:
        """Return the calls since the last snapshot."""
        if self._frozen is not None:
            return {**self._frozen, "isClosed": True}
        return {
            "reset_time": date(self._reset_ms),
            "isClosed": False,
            "web_calls": self._calls.row(),
            "methods": {
                f"method_{name}": {"count": web.count, "min": web.least_ms, "max": web.most_ms}
                for name, web in self._methods.items()
            },
        }

    def snapshot(self, *, at_once: bool = False) -> None:
        """Count from now on, unless the last snapshot is too young or the statistics are disabled."""
        now_ms = self._wall_ms()
        if at_once or (self._frozen is None and abs(now_ms - self._reset_ms) >= SNAPSHOT_S * 1000):
            self._reset_ms = now_ms
            self._calls.snapshot()
            self._methods.clear()

    def close(self) -> None:
        """Disable the statistics."""
        if self._frozen is None:
            self._frozen = self.view()

    def open(self) -> None:
        """Enable the statistics, which start again from now."""
        if self._frozen is not None:
            self._frozen = None
            self.snapshot(at_once=True)


def counted(method: Method[A], called: Callable[[str, float], None]) -> Method[A]:
    """Return the same method, with a count and the duration of its calls."""

    async def run(server: A, args: Args) -> Reply:
        began_s = time.perf_counter()
        try:
            return await method.run(server, args)
        finally:
            called(method.name, time.perf_counter() - began_s)

    return replace(method, run=run)
