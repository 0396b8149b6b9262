"""`kv`: fields by name, `id=1&name=x`. Names that are no column are left out; of equal names the last counts.

Records that all have the same names in the same order are parsed together, others one by one, to the same end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.decode.arrow_types import arrow_schema_of
from pytubemq.decode.formats.fields import FieldError, split_fields, split_pair
from pytubemq.decode.formats.lines import TEXT, are_lines, joined, parsed
from pytubemq.decode.record_format import Fault, FormatResult, without
from pytubemq.decode.text_columns import TextColumn, TextRules, cast_all, texts_of
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.decode.columns import Column
    from pytubemq.decode.format_options import OptionValues


class KvFormat:
    """Columns by name."""

    def __init__(self, columns: tuple[Column, ...], values: OptionValues) -> None:
        for column in columns:
            if column.type.nested:
                raise ConfigError(
                    f"column {column.name}: kv has no fields of type {column.type}", hint="use a string, or json"
                )
        self.columns = columns
        rules = TextRules.of(values)
        schema = arrow_schema_of(columns)
        self._casts = [TextColumn(column, field.type, rules) for column, field in zip(columns, schema, strict=True)]
        self._entry = values.text("entryDelimiter")
        self._kv = values.text("kvDelimiter")
        self._quote = values.text_or_none("quoteChar")
        self._escape = values.text_or_none("escapeChar")
        self._charset = values.text("charset")
        self._parses = self._quote is None and self._escape is None and self._entry.isascii() and self._entry >= " "
        self._must_have = values.flag("failOnMissingField")

    def decode(self, data: Any, *, leading: Sequence[Any] = ()) -> FormatResult:
        """Decode one row for each record."""
        texts, rows = texts_of(data, self._charset)
        alike = None if rows else self._alike(texts, len(leading))
        if alike is not None:
            arrays, bad = cast_all(self._casts, [*leading[: len(self.columns)], *alike])
            return without(FormatResult(arrays, None, [Fault(row, detail) for row, detail in bad.items()]), bad)
        misread = set(rows)
        faults: list[Fault] = []
        records: list[int] = []
        entries: list[dict[str, str]] = []
        for row, text in enumerate(texts.to_pylist()):
            try:
                if text is None:
                    raise FieldError(f"the bytes are not {self._charset}" if row in misread else "there is no body")
                entries.append(self._pairs(text, len(leading)))
            except FieldError as error:
                faults.append(Fault(row, str(error)))
                continue
            records.append(row)
        names = [column.name for column in self.columns]
        kept = None if len(records) == len(data) else pa.array(records, pa.int64())
        first = leading[: len(names)]
        columns = [each if kept is None else pc.take(each, kept) for each in first]
        columns += [pa.array([each.get(name) for each in entries], pa.string()) for name in names[len(first) :]]
        arrays, bad = cast_all(self._casts, columns)
        faults += [Fault(records[row], detail) for row, detail in bad.items()]
        return without(FormatResult(arrays, kept, faults), bad)

    def _alike(self, texts: Any, leading: int) -> list[Any] | None:
        """Return the texts of the columns where all records have the names of the first one in its order; else None."""
        if not self._parses or not len(texts) or texts.null_count:
            return None
        lines = joined(texts)
        if not are_lines(lines, len(texts), ()):
            return None
        names = [entry.partition(self._kv)[0] for entry in texts[0].as_py().split(self._entry)]
        if len(set(names)) < len(names):
            return None
        wanted = [column.name for column in self.columns[leading:]]
        if self._must_have and not set(wanted) <= set(names):
            return None
        fields = parsed(lines, [TEXT] * len(names), self._entry, None, lambda row: "skip")
        if len(fields[0]) < len(texts):
            return None
        values: dict[str, Any] = {}
        for name, field in zip(names, fields, strict=True):
            prefix = name + self._kv
            if not pc.all(pc.starts_with(field, prefix)).as_py():
                return None
            if name in wanted:
                values[name] = pc.utf8_slice_codeunits(field, len(prefix))
        return [values[name] if name in values else pa.nulls(len(texts), TEXT) for name in wanted]

    def _pairs(self, text: str, leading: int) -> dict[str, str]:
        found: dict[str, str] = {}
        if self._quote is None and self._escape is None:
            for entry in text.split(self._entry):
                name, mark, value = entry.partition(self._kv)
                if not mark and entry:
                    raise FieldError(f"the field {entry[:60]!r} has no {self._kv!r}")
                found[name] = value
        else:
            for entry in split_fields(text, self._entry, quote=self._quote, escape=self._escape, keep=True):
                if entry:
                    name, value = split_pair(entry, self._kv, quote=self._quote, escape=self._escape)
                    found[name] = value
        if self._must_have:
            for column in self.columns[leading:]:
                if column.name not in found:
                    raise FieldError(f"column {column.name}: there is no such field")
        return found
