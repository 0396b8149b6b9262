"""Plots as SVG that stands inside a page: no script, no font, no picture from anywhere.

The invariants: every text is escaped; what is drawn is bounded (`MOST_BARS` bars, more batches are drawn together), and
a plot of nothing says so. Colours come from the page's style, classes `s0` to `s7`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH: Final = 720
HEIGHT: Final = 180
MOST_BARS: Final = 240
SERIES: Final = 8
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 8, 8, 24
_TICKS: Final = 4
_LEAST: Final = 1e-9
"""What is smaller is drawn as if this were the top: no figure of a run is."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values over the same places as those of the plot's other series; None is a gap."""

    name: str
    values: Sequence[float | None]


def bars(
    title: str, places: Sequence[str], series: Sequence[Series], *, show: Callable[[float], str] = lambda v: f"{v:,.4g}"
) -> str:
    """Stacked bars, one for each of `places`; `show` writes a value."""
    most = max((sum(values) for values in _stacks(series)), default=0.0)
    if not places or most <= 0:
        return _nothing(title)
    step = _step(most)
    top = step * math.ceil(most / step)
    slot = (WIDTH - _LEFT - _RIGHT) / len(places)
    width = max(1.0, min(slot * 0.8, 48.0))
    marks = []
    for at, place in enumerate(places):
        left = _LEFT + slot * (at + 0.5) - width / 2
        below = 0.0
        for number, one in enumerate(series):
            value = one.values[at] or 0.0
            if value <= 0:
                continue
            tall = value / top * _inner()
            y = HEIGHT - _BOTTOM - below - tall
            hint = escape(f"{place}  {one.name}: {show(value)}")
            marks.append(
                f'<rect class="s{number % SERIES}" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{tall:.1f}">'
                f"<title>{hint}</title></rect>"
            )
            below += tall
    return _frame(title, places, [one.name for one in series], "".join(marks), top, step, show)


def line(
    title: str, places: Sequence[str], series: Sequence[Series], *, show: Callable[[float], str] = lambda v: f"{v:,.4g}"
) -> str:
    """A line for each series, broken where a value is missing."""
    values = [value for one in series for value in one.values if value is not None]
    if not places or not values:
        return _nothing(title)
    most = max(values)
    step = _step(most if most > 0 else 1.0)
    top = step * max(1, math.ceil(most / step))
    slot = (WIDTH - _LEFT - _RIGHT) / len(places)
    marks = []
    for number, one in enumerate(series):
        points = [
            None if value is None else (_LEFT + slot * (at + 0.5), HEIGHT - _BOTTOM - max(0.0, value) / top * _inner())
            for at, value in enumerate(one.values)
        ]
        marks.append(f'<path class="l{number % SERIES}" d="{_path(points)}"/>')
        for at, point in enumerate(points):
            if point is not None:
                hint = escape(f"{places[at]}  {one.name}: {show(one.values[at] or 0.0)}")
                marks.append(
                    f'<circle class="s{number % SERIES}" cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="2.5">'
                    f"<title>{hint}</title></circle>"
                )
    return _frame(title, places, [one.name for one in series], "".join(marks), top, step, show)


def together(count: int) -> list[range]:
    """Which of `count` batches are drawn as one: at most `MOST_BARS` runs of equal length but for the last."""
    each = max(1, math.ceil(count / MOST_BARS))
    return [range(first, min(first + each, count)) for first in range(0, count, each)]


def _stacks(series: Sequence[Series]) -> list[list[float]]:
    return [[value or 0.0 for value in column] for column in zip(*(one.values for one in series), strict=True)]


def _inner() -> float:
    return HEIGHT - _TOP - _BOTTOM


def _step(most: float) -> float:
    """1, 2 or 5 times a power of ten, so that about `_TICKS` lines fit."""
    raw = max(most, _LEAST) / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    parts: list[str] = []
    pen_down = False
    for point in points:
        if point is None:
            pen_down = False
            continue
        parts.append(f"{'L' if pen_down else 'M'}{point[0]:.1f} {point[1]:.1f}")
        pen_down = True
    return "".join(parts)


def _frame(
    title: str,
    places: Sequence[str],
    names: Sequence[str],
    marks: str,
    top: float,
    step: float,
    show: Callable[[float], str],
) -> str:
    lines = []
    for number in range(round(top / step) + 1):
        y = HEIGHT - _BOTTOM - number * step / top * _inner()
        lines.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="axis" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(show(number * step))}</text>'
        )
    ends = f'<text class="axis" x="{_LEFT}" y="{HEIGHT - 6}">{escape(places[0])}</text>'
    if len(places) > 1:
        ends += (
            f'<text class="axis" x="{WIDTH - _RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{escape(places[-1])}</text>'
        )
    legend = "".join(
        f'<span class="key"><i class="b{number % SERIES}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return (
        f"<figure><figcaption>{escape(title)} {legend}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(lines)}{marks}{ends}</svg></figure>"
    )


def _nothing(title: str) -> str:
    return f'<figure><figcaption>{escape(title)}</figcaption><p class="none">nothing to draw: all is zero</p></figure>'
