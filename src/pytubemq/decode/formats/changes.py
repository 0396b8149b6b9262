"""Changes of rows, common to Canal's and Debezium's messages, and the columns that describe a change.

The invariant: a message's changes are rows all together, or the message is rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from pytubemq.decode.arrow_types import arrow_schema_of
from pytubemq.decode.columns import Column, Type
from pytubemq.decode.record_format import Fault, FormatResult, without
from pytubemq.decode.rejection import shown
from pytubemq.decode.text_columns import TextRules, texts_of
from pytubemq.decode.value_columns import ValueColumn, build_all
from pytubemq.errors import ConfigError
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytubemq.decode.format_options import OptionValues

INSERT: Final = "insert"
UPDATE: Final = "update"
DELETE: Final = "delete"
METADATA: Final[Mapping[str, Type]] = {
    "_op": Type("string"),
    "_ts": Type("timestamp"),
    "_database": Type("string"),
    "_table": Type("string"),
    "_before": Type("string"),
}
"""Columns beside a row's; `_before` is the row, or the changed fields, as they were, as JSON."""


class ChangeError(ValueError):
    """The message has no change; the text says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a row."""

    op: str
    row: Mapping[str, Any]
    ts_ms: int | None = None
    database: str | None = None
    table: str | None = None
    before: Any = None

    def metadata(self, name: str) -> Any:
        """Return the value of a metadata column, but for `_ts`: microseconds."""
        match name:
            case "_op":
                return self.op
            case "_ts":
                return None if self.ts_ms is None else self.ts_ms * 1000
            case "_database":
                return self.database
            case "_table":
                return self.table
            case _:
                return None if self.before is None else _WRITER.encode(self.before).decode()


_WRITER: Final = msgspec.json.Encoder(decimal_format="number")


class ChangesFormat:
    """Rows of changes; `changes_of` takes a message apart."""

    def __init__(
        self,
        columns: tuple[Column, ...],
        values: OptionValues,
        changes_of: Callable[[Any], Iterator[Change]],
        *,
        epoch_days: bool,
    ) -> None:
        self._changes_of = changes_of
        rules = TextRules.of(values)
        self._charset = values.text("charset")
        self._must_have = [column.name for column in columns] if values.flag("failOnMissingField") else []
        self._metadata = _metadata(values.names("metadata"))
        self.columns = columns + tuple(Column(name, METADATA[name]) for name in self._metadata)
        schema = arrow_schema_of(self.columns)
        self._kinds = [field.type for field in schema]
        cast = values.flag("castStrings")
        self._build = [
            ValueColumn(column, kind, rules, cast_strings=cast, epoch_days=epoch_days)
            for column, kind in zip(columns, self._kinds, strict=False)
        ]
        self._names = [column.name for column in columns]
        self._database = _pattern("databaseInclude", values.text_or_none("databaseInclude"))
        self._table = _pattern("tableInclude", values.text_or_none("tableInclude"))
        self._json = msgspec.json.Decoder(float_hook=Decimal)

    def decode(self, data: Any, *, leading: Sequence[Any] = ()) -> FormatResult:
        """Decode a row for each change, none for a message without a row (an empty one, or a change of a table)."""
        texts, rows = (data, []) if self._charset == "utf-8" else texts_of(data, self._charset)
        misread = set(rows)
        faults: list[Fault] = []
        changes: list[Change] = []
        records: list[int] = []
        for record, text in enumerate(texts.to_pylist()):
            if record in misread:
                faults.append(Fault(record, f"the bytes are not {self._charset}"))
                continue
            if not text:
                continue  # Debezium sends an empty message after a delete
            try:
                found = [change for change in self._changes_of(self._json.decode(text)) if self._wanted(change)]
            except ChangeError as error:
                faults.append(Fault(record, str(error)))
            except (msgspec.DecodeError, RecursionError, UnicodeError, ArithmeticError) as error:
                faults.append(Fault(record, f"not JSON: {shown(str(error))}"))
            else:
                changes += found
                records += [record] * len(found)
        return self._format_result(changes, records, faults)

    def _format_result(self, changes: list[Change], records: list[int], faults: list[Fault]) -> FormatResult:
        values = [[change.row.get(name) for change in changes] for name in self._names]
        arrays, bad = build_all(self._build, values)
        for row, change in enumerate(changes):
            for name in self._must_have:
                if name not in change.row:
                    bad.setdefault(row, f"column {name}: there is no such field")
        for name, kind in zip(self._metadata, self._kinds[len(self._names) :], strict=True):
            arrays.append(pa.array([change.metadata(name) for change in changes], kind))
        wrong: dict[int, str] = {}
        for row, detail in sorted(bad.items()):
            wrong.setdefault(records[row], detail)
        faults += [Fault(record, detail) for record, detail in wrong.items()]
        result = FormatResult(arrays, pa.array(records, pa.int64()), faults)
        return without(result, {row for row, record in enumerate(records) if record in wrong}) if wrong else result

    def _wanted(self, change: Change) -> bool:
        return (self._database is None or bool(self._database.fullmatch(change.database or ""))) and (
            self._table is None or bool(self._table.fullmatch(change.table or ""))
        )


def text_of(value: Any) -> str | None:
    """Return a text of a message, or None where it is none."""
    return value if isinstance(value, str) else None


def time_of(value: Any) -> int | None:
    """Return a time in milliseconds, or None where it is none that fits."""
    return value if type(value) is int and abs(value) < 1 << 52 else None


def _metadata(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in METADATA:
            close = suggest(name, METADATA)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(METADATA)}"
            raise ConfigError(f"option metadata names {name!r}, which does not exist", hint=hint)
    return tuple(dict.fromkeys(names))


def _pattern(name: str, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"option {name} = {text!r} is not a regular expression: {error}", hint="as in shop_[0-9]+"
        ) from error
