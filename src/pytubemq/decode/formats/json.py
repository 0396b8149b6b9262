"""`json`: one object to a record, fields by name.

Parsed by msgspec, which is strict, checks the encoding and bounds the depth. Not by pyarrow's reader: that one ends the
process at a bare `null` (pyarrow 26) and takes two objects in one record for two records.
"""

from __future__ import annotations

from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import pyarrow as pa

from pytubemq.decode.arrow_types import arrow_schema_of
from pytubemq.decode.record_format import Fault, FormatResult, without
from pytubemq.decode.rejection import unread
from pytubemq.decode.text_columns import TextRules, texts_of
from pytubemq.decode.value_columns import ValueColumn, build_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.decode.columns import Column
    from pytubemq.decode.format_options import OptionValues

_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
MISPARSED: Final = (msgspec.DecodeError, RecursionError, UnicodeError, ValueError, ArithmeticError)


class JsonFormat:
    """Columns by name."""

    def __init__(self, columns: tuple[Column, ...], values: OptionValues) -> None:
        self.columns = columns
        self._rules = TextRules.of(values)
        self._charset = values.text("charset")
        self._must_have = values.flag("failOnMissingField")
        cast_strings = values.flag("castStrings")
        schema = arrow_schema_of(columns)
        self._build = [
            ValueColumn(column, field.type, self._rules, cast_strings=cast_strings)
            for column, field in zip(columns, schema, strict=True)
        ]
        names = [f"f{at}" for at in range(len(columns))]
        self._getters = [attrgetter(name) for name in names]
        self._typed = self._decoder(names, [_wire_type(column, cast_strings=cast_strings) for column in columns])
        self._loose = self._decoder(names, [Any for _ in columns])

    def decode(self, data: Any, *, leading: Sequence[Any] = ()) -> FormatResult:
        """Decode one row for each record."""
        texts, rows = (data, []) if self._charset == "utf-8" else texts_of(data, self._charset)
        misread = set(rows)
        faults: list[Fault] = []
        objects: list[Any] = []
        records: list[int] = []
        typed = self._typed.decode
        for row, text in enumerate(texts.to_pylist()):
            try:
                objects.append(typed(text))
            except (*MISPARSED, TypeError) as error:
                if row in misread:
                    faults.append(Fault(row, f"the bytes are not {self._charset}"))
                    continue
                try:  # the types are wrong, or the whole is no JSON; the first is reported with its column below
                    objects.append(self._loose.decode(text))
                except (*MISPARSED, TypeError):
                    faults.append(Fault(row, "there is no body" if text is None else _detail(error, text)))
                    continue
            records.append(row)
        return self._format_result(objects, records, faults, len(texts))

    def _format_result(self, objects: list[Any], records: list[int], faults: list[Fault], count: int) -> FormatResult:
        kept = None if len(records) == count else pa.array(records, pa.int64())
        arrays, bad = build_all(self._build, [list(map(get, objects)) for get in self._getters])
        faults += [Fault(records[row], detail) for row, detail in bad.items()]
        return without(FormatResult(arrays, kept, faults), bad)

    def _decoder(self, names: Sequence[str], kinds: Sequence[Any]) -> Any:
        fields: list[Any] = []
        for name, kind in zip(names, kinds, strict=True):
            fields.append((name, kind) if self._must_have else (name, kind, None))
        rename = {name: column.name for name, column in zip(names, self.columns, strict=True)}
        # what has no type of msgspec's keeps all its digits: a decimal may lie in it
        return msgspec.json.Decoder(msgspec.defstruct("Record", fields, rename=rename, gc=False), float_hook=Decimal)


def _wire_type(column: Column, *, cast_strings: bool) -> Any:
    """Return the type that msgspec checks; None always passes, NOT NULL is checked with the column."""
    name = column.type.name
    if cast_strings and name != "string":
        return Any
    if name in _BITS:
        limit = 1 << (_BITS[name] - 1)
        return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)] | None
    match name:
        case "boolean":
            return bool | None
        case "float" | "double":
            return float | None
        case "string" | "date" | "binary":
            return str | None
        case _:
            return Any


def _detail(error: BaseException, text: str | bytes) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    return f"not a JSON object with the columns: {unread(error, text)}"
