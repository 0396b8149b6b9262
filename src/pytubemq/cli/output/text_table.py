"""Tables and fields as text, fitted to the width of a terminal.

The invariant: without a width each row is one line; with one no line is wider, and nothing is cut off.
"""

from __future__ import annotations

import sys
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP: Final = "  "
_NARROWEST: Final = 8
"""Characters that a column of text keeps at least; below that each row becomes a block of fields."""


def terminal_width() -> int | None:
    """Return the columns of the terminal on standard output; None if it is none, so that scripts get whole lines."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return columns of text under their names, numbers to the right; wrapped cells where `width` is too small."""
    numeric = [bool(rows) and all(_is_number(row[index]) for row in rows) for index in range(len(columns))]
    widths = [max(len(row[index]) for row in [columns, *rows]) for index in range(len(columns))]
    fitted = widths if width is None else _fitted(widths, columns, numeric, width)
    if fitted is None:
        return "\n\n".join(_block(columns, row, width) for row in rows)
    return "\n".join(_line(row, fitted, numeric) for row in [columns, *rows])


def text_field(name: str, text: str, name_width: int, width: int | None = None) -> str:
    """Return a name and its text beside it, wrapped under its own beginning where `width` is too small."""
    head = f"{name.ljust(name_width)}{_GAP}"
    if width is None or len(head) + len(text) <= width:
        return head + text
    if width - len(head) < 2 * _NARROWEST:  # no room beside the name
        return "\n".join([name, *(f"{_GAP}{line}" for line in _wrapped(text, max(1, width - len(_GAP))))])
    first, *rest = _wrapped(text, width - len(head))
    return "\n".join([head + first, *(" " * len(head) + line for line in rest)])


def _fitted(widths: list[int], columns: Sequence[str], numeric: Sequence[bool], width: int) -> list[int] | None:
    """Return narrower widths that fit into `width`, the widest columns of text first; None if there are none."""
    fitted = list(widths)
    least = [
        size if right else min(size, max(len(name), _NARROWEST))
        for size, name, right in zip(widths, columns, numeric, strict=True)
    ]
    room = width - len(_GAP) * (len(columns) - 1)
    while (excess := sum(fitted) - room) > 0:
        movable = [index for index, size in enumerate(fitted) if size > least[index]]
        if not movable:
            return None
        widest = max(movable, key=fitted.__getitem__)
        next_widest = max((fitted[index] for index in movable if fitted[index] < fitted[widest]), default=0)
        fitted[widest] = max(least[widest], fitted[widest] - excess, min(next_widest, fitted[widest] - 1))
    return fitted


def _line(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    cells = [_wrapped(cell, size) for cell, size in zip(row, widths, strict=True)]
    return "\n".join(
        _GAP.join(
            part.rjust(size) if right else part.ljust(size)
            for part, size, right in zip(parts, widths, numeric, strict=True)
        ).rstrip()
        for parts in zip_longest(*cells, fillvalue="")
    )


def _block(columns: Sequence[str], row: Sequence[str], width: int | None) -> str:
    name_width = max(map(len, columns))
    return "\n".join(text_field(name, cell, name_width, width) for name, cell in zip(columns, row, strict=True))


def _wrapped(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return wrap(text, width, break_on_hyphens=False) or [""]


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()
