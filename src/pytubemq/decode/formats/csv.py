"""`csv`: fields by position. Plain records are parsed all together by pyarrow; odd ones one by one.

The invariant that makes this safe: a record goes to pyarrow's parser only when it holds no line feed, no carriage
return, no byte order mark, no escape, and no quotes but around whole fields, so a line of the parser is a record,
whatever is in it. Both ways end in the same casts: what pyarrow's reader casts is a part of what `text_columns`
casts, and where it fails `text_columns` does it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.decode.arrow_types import arrow_schema_of
from pytubemq.decode.formats.fields import FieldError, split_fields
from pytubemq.decode.formats.lines import BREAKS, TEXT, are_lines, joined, parsed
from pytubemq.decode.record_format import Fault, FormatResult, merged, without
from pytubemq.decode.text_columns import TextColumn, TextRules, cast_all, texts_of
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.decode.columns import Column
    from pytubemq.decode.format_options import OptionValues


class CsvFormat:
    """Columns by position."""

    def __init__(self, columns: tuple[Column, ...], values: OptionValues) -> None:
        for column in columns:
            if column.type.nested:
                raise ConfigError(
                    f"column {column.name}: csv has no fields of type {column.type}", hint="use a string, or json"
                )
        self.columns = columns
        self._rules = TextRules.of(values)
        schema = arrow_schema_of(columns)
        self._kinds = [field.type for field in schema]
        self._casts = [TextColumn(column, kind, self._rules) for column, kind in zip(columns, self._kinds, strict=True)]
        self._delimiter = values.text("fieldDelimiter")
        self._quote = values.text_or_none("quoteChar")
        self._escape = values.text_or_none("escapeChar")
        self._charset = values.text("charset")
        self._delete_head = values.flag("deleteHeadDelimiter")
        self._drop_more = values.flag("ignoreTrailingUnmappable")
        self._fill_less = values.flag("insertNullsForMissingColumns")
        self._marks = [mark for mark in (self._quote, self._escape) if mark is not None]
        self._well_quoted = _well_quoted(self._delimiter, self._quote or '"')
        self._parses = all(mark.isascii() and mark not in "\n\r\0" for mark in (self._delimiter, self._quote or ","))

    def decode(self, data: Any, *, leading: Sequence[Any] = ()) -> FormatResult:
        """Decode one row for each record."""
        if not len(data):
            return FormatResult([pa.nulls(0, kind) for kind in self._kinds])
        texts, rows = texts_of(data, self._charset)
        parses = self._parses and len(leading) < len(self.columns)
        faults = [Fault(row, f"the bytes are not {self._charset}") for row in rows]
        if self._delete_head:
            heads = pc.starts_with(texts, self._delimiter)
            texts = pc.if_else(heads, pc.utf8_slice_codeunits(texts, 1), texts)
        lines, odd = self._lines(texts, bool(rows)) if parses else (None, list(range(len(texts))))
        if lines is not None and not odd:
            return self._plain(lines, len(texts), None, leading)
        taken = set(odd) | set(rows)
        plain = pa.array([row for row in range(len(texts)) if row not in taken], pa.int64())
        alone = self._one_by_one(texts, [row for row in odd if row not in set(rows)], leading)
        parts = [FormatResult([], None, faults), alone]
        if len(plain):
            lines = joined(pc.take(texts, plain))
            parts.append(self._plain(lines, len(plain), plain, [pc.take(each, plain) for each in leading]))
        return merged(parts, self._kinds)

    def _lines(self, texts: Any, has_null: bool) -> tuple[Any, list[int]]:
        """Return the records as lines, if all may be lines; else the rows of those that may not."""
        if not has_null and not texts.null_count:
            lines = joined(texts)
            if are_lines(lines, len(texts), self._marks):
                return lines, []
        found = pc.is_null(texts)
        for mark in (*BREAKS, *self._marks):
            has = pc.match_substring(texts, mark)
            if mark == self._quote:
                has = pc.and_not(has, pc.match_substring_regex(texts, self._well_quoted))
            found = pc.or_(found, pc.fill_null(has, True))
        odd = pc.indices_nonzero(found).to_pylist()
        return (None if odd else joined(texts)), odd

    def _plain(self, lines: Any, count: int, records: Any, leading: Sequence[Any]) -> FormatResult:
        """Decode lines without anything odd; a line with too many or too few fields is skipped by the parser."""
        skipped: list[tuple[int, str]] = []
        casts = self._casts[len(leading) :]

        def skip(row: Any) -> str:
            skipped.append((row.number - 1, row.text))
            return "skip"

        bad: dict[int, str] = {}
        if self._rules.null_literal is None and not self._rules.empty_is_null:
            fields, bad = self._typed(lines, casts, skip, skipped)
        else:
            fields, bad = cast_all(casts, parsed(lines, [TEXT] * len(casts), self._delimiter, self._quote, skip))
        first, bad_first = self._lead(leading, [row for row, _ in skipped], count)
        result = FormatResult([*first, *fields], records)
        if not skipped and not bad and not bad_first:
            return result
        if records is None:
            result.records = records = pa.array(range(count), pa.int64())
        gone = {row for row, _ in skipped}
        if gone:
            result.records = pc.take(records, pa.array([row for row in range(count) if row not in gone], pa.int64()))
        bad = {**bad, **bad_first}
        faults = [Fault(result.records[row].as_py(), detail) for row, detail in bad.items()]
        kept = without(result, bad)
        ragged = self._ragged([(records[row].as_py(), row, text) for row, text in skipped], leading)
        return merged([FormatResult([], None, faults), kept, ragged], self._kinds)

    def _typed(self, lines: Any, casts: Sequence[TextColumn], skip: Any, skipped: list[Any]) -> tuple[list[Any], Any]:
        kinds = [each.parsed_kind for each in casts]
        if None not in kinds:
            try:
                found = parsed(lines, kinds, self._delimiter, self._quote, skip)
                arrays = [each.from_parsed(array) for each, array in zip(casts, found, strict=True)]
            except pa.ArrowInvalid:
                skipped.clear()
            else:
                return arrays, self._null_rows(arrays)
        return cast_all(casts, parsed(lines, [TEXT] * len(casts), self._delimiter, self._quote, skip))

    def _null_rows(self, arrays: Sequence[Any]) -> dict[int, str]:
        bad: dict[int, str] = {}
        for each, array in zip(self._casts[-len(arrays) :], arrays, strict=True):
            each.check_nulls(array, bad)
        return bad

    def _lead(self, leading: Sequence[Any], gone: list[int], count: int) -> tuple[list[Any], dict[int, str]]:
        if not leading:
            return [], {}
        if gone:
            left = set(gone)
            rows = pa.array([row for row in range(count) if row not in left], pa.int64())
            leading = [pc.take(each, rows) for each in leading]
        return cast_all(self._casts[: len(leading)], leading)

    def _ragged(self, skipped: Sequence[tuple[int, int, str]], leading: Sequence[Any]) -> FormatResult:
        """Decode lines with another number of fields than the columns."""
        fields_by_row: list[tuple[int, list[str]]] = []
        for record, row, text in skipped:
            head = [each[row].as_py() for each in leading]
            fields_by_row.append(
                (record, [*head, *split_fields(text, self._delimiter, quote=self._quote, escape=None)])
            )
        return self._cast_rows(fields_by_row)

    def _one_by_one(self, texts: Any, rows: Sequence[int], leading: Sequence[Any]) -> FormatResult:
        fields_by_row: list[tuple[int, list[str]]] = []
        faults: list[Fault] = []
        for row in rows:
            text = texts[row].as_py()
            if text is None:
                faults.append(Fault(row, "there is no body"))
                continue
            try:
                fields = split_fields(text, self._delimiter, quote=self._quote, escape=self._escape)
            except FieldError as error:
                faults.append(Fault(row, str(error)))
                continue
            fields_by_row.append((row, [*(each[row].as_py() for each in leading), *fields]))
        result = self._cast_rows(fields_by_row)
        result.faults += faults
        return result

    def _cast_rows(self, rows: Sequence[tuple[int, list[str]]]) -> FormatResult:
        """Cast fields that were split already, of each record."""
        width = len(self.columns)
        records: list[int] = []
        kept: list[list[str | None]] = []
        faults: list[Fault] = []
        for record, fields in rows:
            whole: list[str | None] = list(fields)
            if len(whole) > width and self._drop_more:
                del whole[width:]
            elif len(whole) < width and self._fill_less:
                whole += [None] * (width - len(whole))
            if len(whole) != width:
                faults.append(Fault(record, f"{len(whole)} fields where there are {width} columns"))
                continue
            records.append(record)
            kept.append(whole)
        if not kept:
            return FormatResult([], None, faults)
        arrays, bad = cast_all(self._casts, [pa.array(column, TEXT) for column in zip(*kept, strict=True)])
        faults += [Fault(records[row], detail) for row, detail in bad.items()]
        return without(FormatResult(arrays, pa.array(records, pa.int64()), faults), bad)


def _well_quoted(delimiter: str, quote: str) -> str:
    """Return a pattern of the records in which quotes stand around whole fields only."""
    quote, delimiter = (f"\\x{{{ord(mark):x}}}" for mark in (quote, delimiter))
    field = f"(?:{quote}(?:[^{quote}]|{quote}{quote})*{quote}|[^{quote}{delimiter}]*)"
    return f"^{field}(?:{delimiter}{field})*$"
