"""Plots that stand inside a page: shapes as SVG, letters as HTML; no script, no font, no picture from anywhere.

The invariants: every text is escaped; what is drawn is bounded (`MOST_BARS` bars, more batches are drawn together); no
two lines of an axis bear the same label, and a plot of nothing says so. The shapes stretch with the page and the
letters do not, so that both can be read on a narrow screen. Colours come from the page's style, classes `s0` to `s7`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH: Final = 1000
HEIGHT: Final = 100
"""Of the drawing in its own units; the page's style says how large it is shown."""
MOST_BARS: Final = 240
SERIES: Final = 8
MOST_LABELS: Final = 4
"""So many places are named each, below its bar; of more the first and the last."""
NOTHING: Final = "nothing to draw: all is zero"
_TICKS: Final = 4
_LEAST: Final = 1e-9
"""What is smaller is drawn as if this were the top: no figure of a run is."""
_WIDEST: Final = 80.0


@dataclass(frozen=True, slots=True)
class Series:
    """Values over the same places as those of the plot's other series; None is a gap."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Scale:
    """The format of values, and the divisions that an axis may have."""

    show: Callable[[float], str] = lambda value: f"{value:,.4g}"
    whole: bool = False
    """True if whole things are counted: no line stands between two of them."""
    zero: str = NOTHING
    """Said in place of a plot of which each value is zero."""


def bars(title: str, places: Sequence[str], series: Sequence[Series], scale: Scale = Scale()) -> str:
    """Draw stacked bars, one for each of `places`."""
    most = max((sum(values) for values in _stacks(series)), default=0.0)
    if not places or most <= 0:
        return nothing(title, scale.zero)
    step = _step(most, whole=scale.whole)
    top = step * math.ceil(most / step)
    slot = WIDTH / len(places)
    width = max(1.0, min(slot * 0.8, _WIDEST))
    marks = []
    for at, place in enumerate(places):
        left = slot * (at + 0.5) - width / 2
        below = 0.0
        for number, one in enumerate(series):
            value = one.values[at] or 0.0
            if value <= 0:
                continue
            tall = value / top * HEIGHT
            y = HEIGHT - below - tall
            hint = escape(f"{place}  {one.name}: {scale.show(value)}")
            marks.append(
                f'<rect class="s{number % SERIES}" x="{left:.1f}" y="{y:.2f}" width="{width:.1f}" height="{tall:.2f}">'
                f"<title>{hint}</title></rect>"
            )
            below += tall
    return _frame(title, places, [one.name for one in series], "".join(marks), _ticks(top, step, scale))


def line(title: str, places: Sequence[str], series: Sequence[Series], scale: Scale = Scale()) -> str:
    """Draw a line for each series, broken where a value is missing; bars where there is one place only."""
    values = [value for one in series for value in one.values if value is not None]
    if not places or not values or max(values) <= 0:
        return nothing(title, scale.zero if values else "unknown")
    if len(places) == 1:
        return bars(title, places, series, scale)
    most = max(values)
    step = _step(most, whole=scale.whole)
    top = step * max(1, math.ceil(most / step))
    slot = WIDTH / len(places)
    marks = []
    for number, one in enumerate(series):
        points = [
            None if value is None else (slot * (at + 0.5), HEIGHT * (1 - max(0.0, value) / top))
            for at, value in enumerate(one.values)
        ]
        marks.append(f'<path class="l{number % SERIES}" d="{_path(points)}"/>')
        for at, point in enumerate(points):
            if point is not None:  # a line without length and with round ends: a dot, however the drawing is stretched
                hint = escape(f"{places[at]}  {one.name}: {scale.show(one.values[at] or 0.0)}")
                marks.append(
                    f'<path class="dot l{number % SERIES}" d="M{point[0]:.1f} {point[1]:.2f}h0">'
                    f"<title>{hint}</title></path>"
                )
    return _frame(title, places, [one.name for one in series], "".join(marks), _ticks(top, step, scale))


def nothing(title: str, said: str) -> str:
    """Render a sentence where a plot would be empty."""
    return f'<figure><figcaption>{escape(title)}: <span class="none">{escape(said)}</span></figcaption></figure>'


def together(count: int) -> list[range]:
    """Divide `count` batches into at most `MOST_BARS` groups, all but the last of equal length, each drawn as one."""
    each = max(1, math.ceil(count / MOST_BARS))
    return [range(first, min(first + each, count)) for first in range(0, count, each)]


def _stacks(series: Sequence[Series]) -> list[list[float]]:
    return [[value or 0.0 for value in column] for column in zip(*(one.values for one in series), strict=True)]


def _step(most: float, *, whole: bool) -> float:
    """Return 1, 2 or 5 times a power of ten, so that about `_TICKS` lines fit."""
    raw = max(most, _LEAST) / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    return max(step, 1.0) if whole else step


def _ticks(top: float, step: float, scale: Scale) -> list[tuple[float, str]]:
    """Return the axis's lines: the height of each, from 0 to 1, and its label."""
    count = round(top / step)
    return [(number / count, scale.show(number * step)) for number in range(count + 1)]


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    parts: list[str] = []
    pen_down = False
    for point in points:
        if point is None:
            pen_down = False
            continue
        parts.append(f"{'L' if pen_down else 'M'}{point[0]:.1f} {point[1]:.2f}")
        pen_down = True
    return "".join(parts)


def _frame(
    title: str, places: Sequence[str], names: Sequence[str], marks: str, ticks: Sequence[tuple[float, str]]
) -> str:
    lines = "".join(
        f'<path class="grid" d="M0 {HEIGHT * (1 - high):.2f}H{WIDTH}"/>' for high, _ in ticks
    )  # drawn first, below all else
    labels = "".join(f'<span style="bottom:{high:.1%}">{escape(label)}</span>' for high, label in ticks)
    each = len(places) <= MOST_LABELS
    named = places if each else (places[0], places[-1])
    ends = "".join(f"<span>{escape(place)}</span>" for place in named)
    legend = "".join(
        f'<span class="key"><i class="b{number % SERIES}"></i>{escape(name)}</span>'
        for number, name in enumerate(names if len(names) > 1 else ())
    )
    return (
        f"<figure><figcaption>{escape(title)} {legend}</figcaption>"
        f'<div class="plot"><div class="ticks" style="width:{max(len(label) for _, label in ticks)}ch">{labels}</div>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(title)}">'
        f'{lines}{marks}</svg><div class="{"each" if each else "ends"}">{ends}</div></div></figure>'
    )
