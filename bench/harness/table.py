"""The table in which a comparison ends: plain text, one row a line, and what was missed at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.harness.decisions import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.harness.decisions import Row

HEAD = ("measure", "what", "ours", "peer", "unit", "ratio", "target", "met")
RIGHT = frozenset({"ours", "peer", "ratio"})


def table(rows: Sequence[Row]) -> str:
    """All rows below each other, notes under theirs."""
    lines = [_cells(row) for row in rows]
    widths = [max(len(line[at]) for line in [HEAD, *lines]) for at in range(len(HEAD))]
    text = [_line(HEAD, widths), "  ".join("-" * width for width in widths)]
    for row, cells in zip(rows, lines, strict=True):
        text.append(_line(cells, widths))
        text += [f"    {note}" for note in row.note.splitlines()]
    text += ["", summary(rows)]
    return "\n".join(text)


def summary(rows: Sequence[Row]) -> str:
    """How many targets there were and which were missed."""
    judged = [row for row in rows if row.met is not None]
    missed = list(dict.fromkeys(row.measure for row in judged if not row.met))
    said = f"{sum(row.met is True for row in judged)} of {len(judged)} targets met"
    return f"{said}; missed in: {', '.join(missed)}" if missed else said


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    target = "-" if row.target is None else row.target.text(row.unit)
    met = {None: "-", True: "yes", False: "NO"}[row.met]
    return row.measure, row.what, figure(row.ours), figure(row.peer), row.unit, ratio, target, met


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = (
        cell.rjust(width) if name in RIGHT else cell.ljust(width)
        for name, cell, width in zip(HEAD, cells, widths, strict=True)
    )
    return "  ".join(aligned).rstrip()
