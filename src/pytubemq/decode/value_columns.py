"""Python's values, as from JSON or Avro, converted to typed columns.

The invariant: strict. A value has its column's type or is bad, found alone; nothing is rounded, cut or guessed.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.decode.decimals import fitting, read
from pytubemq.decode.rejection import shown
from pytubemq.decode.text_columns import TextColumn, singled_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.decode.columns import Column, Type
    from pytubemq.decode.text_columns import Bad, TextRules

_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_US: Final = {"seconds": 1_000_000, "millis": 1000, "micros": 1}
_ISO_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:$|[ T])")
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)


class ValueColumn:
    """Makes the array of one column from values."""

    def __init__(self, column: Column, kind: Any, rules: TextRules, *, cast_strings: bool, epoch_days: bool = False):
        self.column = column
        self.kind = kind
        self._ignore_errors = rules.ignore_errors
        self._convert = converter(column.type, rules, cast_strings=cast_strings, epoch_days=epoch_days)
        self._native = _NATIVE.get(column.type.name)
        self._fitted = fitting(column.type.precision, column.type.scale) if column.type.name == "decimal" else None
        self._text: TextColumn | None = None
        if column.type.name in _FROM_TEXT or (cast_strings and self._native is not None and str not in self._native):
            if rules.time_format in _US:  # that is for numbers
                rules = replace(rules, time_format="iso")
            self._text = TextColumn(replace(column, nullable=True), kind, rules)

    def build(self, values: Sequence[Any]) -> tuple[Any, Bad]:
        """Build the array of the values, and return the rows that do not fit; these are null in the array."""
        bad: Bad = {}
        kinds = set(map(type, values))
        kinds.discard(type(None))
        array = self._at_once(values, kinds)
        if array is None:
            array = self._by_kind(values, kinds, bad)
        if self._ignore_errors:
            bad.clear()
        if not self.column.nullable and array.null_count:
            for row, valid in enumerate(array.is_valid().to_pylist()):
                if not valid:
                    bad.setdefault(row, f"column {self.column.name}: null, and it is NOT NULL")
        return array, bad

    def _at_once(self, values: Sequence[Any], kinds: set[type]) -> Any:
        """Build the array where all values are of the one type that needs no look at each; else None."""
        if self._native is None or not kinds <= self._native:
            return None
        try:
            if self._fitted is not None:
                values = [None if value is None else self._fitted(Decimal(value)) for value in values]
            return pa.array(values, self.kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, ArithmeticError, UnicodeEncodeError):
            return None

    def _by_kind(self, values: Sequence[Any], kinds: set[type], bad: Bad) -> Any:
        """Convert texts as a column of text, all else one by one."""
        if self._text is None or str not in kinds:
            return self._one_by_one(values, bad)
        mixed = len(kinds) > 1
        texts = [value if isinstance(value, str) else None for value in values] if mixed else values
        try:
            from_texts, of_texts = self._text.cast(pa.array(texts, pa.string()))
        except UnicodeEncodeError:  # a lone surrogate
            return self._one_by_one(values, bad)
        bad.update(of_texts)
        if not mixed:
            return from_texts
        others = [None if isinstance(value, str) else value for value in values]
        return pc.coalesce(from_texts, self._one_by_one(others, bad))

    def _one_by_one(self, values: Sequence[Any], bad: Bad) -> Any:
        converted: list[Any] = []
        for row, value in enumerate(values):
            try:
                converted.append(None if value is None else self._convert(value))
            except (ValueError, TypeError, OverflowError, ArithmeticError, KeyError):
                bad[row] = self._detail(value)
                converted.append(None)
        array, rows = singled_out(converted, lambda part: pa.array(part, self.kind), self.kind)
        for row in rows:
            bad[row] = self._detail(values[row])
        return array

    def _detail(self, value: Any) -> str:
        return f"column {self.column.name}: {shown(value)} is not a valid {self.column.type}"


_FROM_TEXT: Final = ("date", "timestamp", "timestamp_ntz", "decimal")
"""Types that JSON has no form of, so that a text always is one."""
_NATIVE: Final[dict[str, set[type]]] = {
    "boolean": {bool},
    "tinyint": {int},
    "smallint": {int},
    "int": {int},
    "bigint": {int},
    "double": {float},
    "float": {float},
    "string": {str},
    "decimal": {Decimal, int},
    "binary": {bytes},
    "timestamp": {datetime},
    "date": {date},
}


def converter(kind: Type, rules: TextRules, *, cast_strings: bool, epoch_days: bool = False) -> Callable[[Any], Any]:
    """Make a function from a value, not None, to what pyarrow makes the column of; it raises ValueError or alike."""

    def inner(of: Type | None) -> Callable[[Any], Any]:
        assert of is not None
        convert = converter(of, rules, cast_strings=cast_strings, epoch_days=epoch_days)
        return lambda value: None if value is None else convert(value)

    match kind.name:
        case "array":
            return _array(inner(kind.element))
        case "map":
            return _map(inner(kind.key), inner(kind.element))
        case "struct":
            return _struct([(field.name, inner(field.type), field.nullable) for field in kind.fields])
        case "timestamp" | "timestamp_ntz":
            return _time(rules, zoned=kind.name == "timestamp")
        case "date":
            return lambda value: _date(value, epoch_days=epoch_days)
    simple: dict[str, Callable[[Any], Any]] = {
        "boolean": _boolean,
        "float": _float,
        "double": _float,
        "decimal": _decimal(kind),
        "string": _string,
        "binary": _binary,
    }
    plain = simple.get(kind.name) or _integer(_BITS.get(kind.name, 64))
    if not cast_strings or kind.name in ("string", "binary"):
        return plain
    return lambda value: plain(_from_text(value, kind.name) if isinstance(value, str) else value)


def _from_text(text: str, name: str) -> Any:
    stripped = text.strip()
    if "_" in stripped or not stripped.isascii():
        raise ValueError
    if name == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}[stripped.lower()]
    if name in ("float", "double"):
        return float(stripped)
    return Decimal(stripped) if name == "decimal" else int(stripped)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _integer(bits: int) -> Callable[[Any], int]:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise TypeError
        return value

    return convert


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise TypeError
    return float(value)


def _decimal(kind: Type) -> Callable[[Any], Decimal]:
    fitted = fitting(kind.precision, kind.scale)

    def convert(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
            raise TypeError
        if isinstance(value, str):
            return fitted(read(value.strip()))
        return fitted(Decimal(repr(value)) if isinstance(value, float) else Decimal(value))

    return convert


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # a lone surrogate is no text
    return value


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _date(value: Any, *, epoch_days: bool) -> Any:
    if isinstance(value, str) and _ISO_DATE.match(value.strip()):
        return (date.fromisoformat(value.strip()) - _EPOCH_DAY).days
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - _EPOCH_DAY).days
    if not epoch_days or type(value) is not int or abs(value) >= 1 << 31:
        raise TypeError
    return value


def _time(rules: TextRules, *, zoned: bool) -> Callable[[Any], int]:
    factor = _US.get(rules.time_format)
    pattern = rules.time_format if "%" in rules.time_format else None
    zone = ZoneInfo(rules.zone)

    def convert(value: Any) -> int:
        if type(value) is int and factor is not None:
            time_us = value * factor
            if abs(time_us) >= 1 << 63:
                raise OverflowError
            return time_us
        if isinstance(value, str):
            text = value.strip()
            if not pattern and not _ISO_DATE.match(text):
                raise ValueError
            value = datetime.strptime(text, pattern) if pattern else datetime.fromisoformat(text)
        if not isinstance(value, datetime):
            raise TypeError
        if value.tzinfo is not None and not zoned:
            raise ValueError
        if zoned:
            value = (value if value.tzinfo else value.replace(tzinfo=zone)).astimezone(ZoneInfo("UTC"))
        since: timedelta = value.replace(tzinfo=None) - _EPOCH
        return since // _MICROSECOND

    return convert


def _array(element: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return [element(each) for each in value]

    return convert


def _map(key: Callable[[Any], Any], element: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise TypeError
        return [(key(name), element(each)) for name, each in value.items()]

    return convert


def _struct(fields: Sequence[tuple[str, Callable[[Any], Any], bool]]) -> Callable[[Any], Any]:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError
        struct = {}
        for name, element, nullable in fields:
            struct[name] = element(value.get(name))
            if struct[name] is None and not nullable:
                raise ValueError
        return struct

    return convert


def build_all(columns: Sequence[ValueColumn], values: Sequence[Sequence[Any]]) -> tuple[list[Any], Bad]:
    """Build every column of a table of values, one by one; a row bad in several columns reports the first."""
    arrays: list[Any] = []
    bad: Bad = {}
    for column, of_column in zip(columns, values, strict=True):
        array, rows = column.build(of_column)
        arrays.append(array)
        for row, detail in rows.items():
            bad.setdefault(row, detail)
    return arrays, bad
