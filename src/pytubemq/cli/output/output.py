"""Data on standard output, in the requested form.

The invariants: each form has the same rows; only `table` may shorten or round values; a peer's control characters in a
name or a text are escaped, so that no terminal obeys them.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.output.text_table import terminal_width, text_field, text_table
from pytubemq.model.names import escaped, escaped_json, escaped_text

if TYPE_CHECKING:
    from pytubemq.cli.options import GlobalOptions

Row = Mapping[str, Any]


def emit_rows(options: GlobalOptions, rows: Sequence[Row], columns: Sequence[str], *, name: str) -> None:
    """Print a listing: `columns` are those of a table and a CSV, `name` is the column that names a row."""
    form = options.output or "table"
    if form == "json":
        _write(escaped_json(json.dumps(list(rows), ensure_ascii=False, indent=2)))
    elif form == "jsonl":
        for row in rows:
            _write(escaped_json(json.dumps(row, ensure_ascii=False)))
    elif form == "csv":
        _write(_csv(rows, columns), newline=False)
    elif form == "name":
        for row in rows:
            _write(escaped(str(row[name])))
    else:
        _write(table(rows, columns, terminal_width()))


def emit_object(options: GlobalOptions, value: Row, *, name: str) -> None:
    """Print one thing: its fields below each other, one JSON object, or one line of CSV."""
    form = options.output or "table"
    if form == "json":
        _write(escaped_json(json.dumps(value, ensure_ascii=False, indent=2)))
    elif form == "jsonl":
        _write(escaped_json(json.dumps(value, ensure_ascii=False)))
    elif form == "csv":
        _write(_csv([value], list(value)), newline=False)
    elif form == "name":
        _write(escaped(str(value[name])))
    else:
        name_width = max((len(key) for key in value), default=0)
        for key, item in value.items():
            _write(_field(key, item, name_width, terminal_width()))


def emit_lines(lines: Iterable[str]) -> None:
    """Print lines of plain text for people; a line may contain line breaks."""
    for line in lines:
        _write(escaped_text(line))


def table(rows: Iterable[Row], columns: Sequence[str], width: int | None = None) -> str:
    """Return rows as columns of text, no wider than `width`."""
    return text_table(columns, [[_cell(row.get(column)) for column in columns] for row in rows], width)


def _field(key: str, item: Any, name_width: int, width: int | None) -> str:
    if isinstance(item, list) and item and all(isinstance(entry, dict) for entry in item):
        columns = list(dict.fromkeys(column for entry in item for column in entry))
        body = table(item, columns, None if width is None else width - 2)
        return f"{key}\n" + "\n".join(f"  {line}".rstrip() for line in body.splitlines())
    if isinstance(item, list) and any(" " in entry for entry in item if isinstance(entry, str)):
        first, *rest = [_cell(entry) for entry in item]  # sentences: one below the other
        lines = [text_field(key, first, name_width, width)]
        return "\n".join([*lines, *(text_field("", line, name_width, width) for line in rest)])
    return text_field(key, _cell(item), name_width, width)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list) and all(not isinstance(item, list | dict) for item in value):
        return ", ".join(_cell(item) for item in value) or "-"
    if isinstance(value, list | dict):
        return escaped_json(json.dumps(value, ensure_ascii=False))
    return escaped(str(value))


def _csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_plain(row.get(column)) for column in columns])
    return text.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(item, str | int | float) for item in value):
        return escaped(", ".join(map(str, value)))
    if isinstance(value, list | dict | bool):
        return escaped_json(json.dumps(value, ensure_ascii=False))
    if isinstance(value, str):
        return escaped(value)
    return "" if value is None else value


def _write(text: str, *, newline: bool = True) -> None:
    click.echo(text, nl=newline, file=sys.stdout)
