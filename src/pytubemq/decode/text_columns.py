"""Text into typed columns, a whole column at a time.

The invariant: a text that does not fit its type is found alone, and its neighbours are cast as if it were not
there. White space around anything but text is ignored, and an empty field there is null, as InLong Sort has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.decode.decimals import cast_texts
from pytubemq.decode.rejection import shown
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.decode.columns import Column
    from pytubemq.decode.format_options import OptionValues

_MICROS: Final = {"seconds": 1_000_000, "millis": 1000, "micros": 1}
_ZONED: Final = r"(?:[Zz]|[+-][0-9]{2}:?[0-9]{2}|[+-][0-9]{2})$"
_TOO_FINE: Final = r"(\.[0-9]{6})[0-9]+"
_UTC: Final[Any] = pa.timestamp("us", "UTC")
_NAIVE: Final[Any] = pa.timestamp("us")
Bad = dict[int, str]
"""Rows that did not fit, with the detail."""


@dataclass(frozen=True, slots=True)
class TextRules:
    """The rules by which text is read."""

    null_literal: str | None = None
    empty_is_null: bool = False
    ignore_errors: bool = False
    time_format: str = "iso"
    zone: str = "UTC"

    @classmethod
    def of(cls, values: OptionValues) -> TextRules:
        """Return the rules that a format's options set.

        Raises:
            ConfigError: the format of times is not one.
        """
        time_format = values.text_or_none("timestampFormat") or "iso"
        if time_format not in ("iso", *_MICROS) and "%" not in time_format:
            raise ConfigError(
                f"option timestampFormat = {time_format!r} is not valid",
                hint="timestampFormat takes iso, seconds, millis, micros or a pattern with %, as in %Y%m%d%H%M%S",
            )
        return cls(
            null_literal=values.text_or_none("nullLiteral"),
            empty_is_null=values.flag("emptyStringAsNull"),
            ignore_errors=values.flag("ignoreErrors"),
            time_format=time_format,
            zone=values.text_or_none("timeZone") or "UTC",
        )


class TextColumn:
    """Casts the texts of one column."""

    def __init__(self, column: Column, kind: Any, rules: TextRules) -> None:
        self.column = column
        self.kind = kind
        self._rules = rules
        self._is_text = column.type.name in ("string", "binary")
        self._direct = self._caster()

    def cast(self, texts: Any) -> tuple[Any, Bad]:
        """Cast a text array to the column's type, and return the rows that do not fit; these are null in the array."""
        rules = self._rules
        bad: Bad = {}
        if rules.null_literal is not None:
            texts = pc.if_else(pc.equal(texts, rules.null_literal), pa.scalar(None, pa.string()), texts)
        if self._is_text:
            if rules.empty_is_null:
                texts = _empty_as_null(texts)
            array = self._direct(texts)
        else:
            array = self._cast_strictly(texts, bad)
        if rules.ignore_errors:
            bad.clear()
        self.check_nulls(array, bad)
        return array, bad

    @property
    def parsed_kind(self) -> Any:
        """The type to which pyarrow's csv reader parses the column, for `from_parsed`; None if it cannot."""
        if pa.types.is_decimal(self.kind):
            return pa.string()
        if not pa.types.is_timestamp(self.kind):
            return self.kind
        return _NAIVE if self._rules.time_format == "iso" else None

    def from_parsed(self, array: Any) -> Any:
        """Convert an array of the csv reader to the column's type.

        Raises:
            pa.ArrowInvalid: something does not fit.
        """
        if array.type == self.kind:
            return array
        return self._direct(_empty_as_null(array)) if pa.types.is_decimal(self.kind) else self._in_zone(array)

    def check_nulls(self, array: Any, bad: Bad) -> None:
        """Mark nulls as bad where the column takes none."""
        if self.column.nullable or not array.null_count:
            return
        for row, valid in enumerate(array.is_valid().to_pylist()):
            if not valid:
                bad.setdefault(row, f"column {self.column.name}: null, and it is NOT NULL")

    def _cast_strictly(self, texts: Any, bad: Bad) -> Any:
        try:
            return self._direct(texts)
        except pa.ArrowInvalid:
            cleaned = _empty_as_null(pc.utf8_trim_whitespace(texts))
        if pa.types.is_timestamp(self.kind):
            cleaned = pc.replace_substring_regex(cleaned, _TOO_FINE, r"\1")
        array, rows = singled_out(cleaned, self._direct, self.kind)
        for row in rows:
            bad[row] = f"column {self.column.name}: {shown(texts[row].as_py())} is not a valid {self.column.type}"
        return array

    def _caster(self) -> Callable[[Any], Any]:
        if pa.types.is_decimal(self.kind):
            return lambda texts: cast_texts(texts, self.kind)
        if not pa.types.is_timestamp(self.kind):
            return lambda texts: texts.cast(self.kind)
        if self._rules.time_format == "iso":
            return self._iso
        if (factor := _MICROS.get(self._rules.time_format)) is not None:
            return lambda texts: pc.multiply_checked(texts.cast(pa.int64()), factor).cast(self.kind)
        return lambda texts: self._in_zone(pc.strptime(texts, format=self._rules.time_format, unit="us"))

    def _iso(self, texts: Any) -> Any:
        try:
            return self._in_zone(texts.cast(_NAIVE))
        except pa.ArrowInvalid:
            if self.kind.tz is None:
                raise
        zoned = pc.match_substring_regex(texts, _ZONED)
        nothing = pa.scalar(None, pa.string())
        with_zone = pc.if_else(zoned, texts, nothing).cast(_UTC)
        without_zone = self._in_zone(pc.if_else(zoned, nothing, texts).cast(_NAIVE))
        return pc.coalesce(with_zone, without_zone)

    def _in_zone(self, naive: Any) -> Any:
        if self.kind.tz is None:
            return naive
        if self._rules.zone == "UTC":
            return naive.cast(_UTC)
        aware = pc.assume_timezone(naive, self._rules.zone, ambiguous="earliest", nonexistent="earliest")
        return aware.cast(_UTC)


def singled_out(values: Any, cast: Callable[[Any], Any], kind: Any) -> tuple[Any, list[int]]:
    """Cast an array by halves until only what does not fit is left out; these rows are null."""
    rows: list[int] = []
    parts: list[Any] = []
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        try:
            parts.append(cast(values[start:end]))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError):
            if end - start == 1:
                rows.append(start)
                parts.append(pa.nulls(1, kind))
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
    return (pa.concat_arrays(parts) if parts else pa.nulls(0, kind)), rows


def texts_of(data: Any, charset: str) -> tuple[Any, list[int]]:
    """Decode a binary array to text, and return the rows whose bytes are not of the charset; these are null."""
    if charset in ("utf-8", "ascii"):
        try:
            texts = data.cast(pa.string())
        except pa.ArrowInvalid:
            texts, rows = singled_out(data, lambda part: part.cast(pa.string()), pa.string())
        else:
            rows = []
        if charset == "ascii":
            ascii_only = pc.string_is_ascii(texts)
            beyond = [row for row, fine in enumerate(ascii_only.to_pylist()) if fine is False]
            if beyond:
                texts = pc.if_else(ascii_only, texts, pa.scalar(None, pa.string()))
                rows = sorted({*rows, *beyond})
        return texts, rows
    decoded: list[str | None] = []
    rows = []
    for row, value in enumerate(data.to_pylist()):
        try:
            decoded.append(None if value is None else value.decode(charset))
        except (UnicodeDecodeError, ValueError):
            decoded.append(None)
            rows.append(row)
    return pa.array(decoded, pa.string()), rows


def _empty_as_null(texts: Any) -> Any:
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def cast_all(columns: Sequence[TextColumn], texts: Sequence[Any]) -> tuple[list[Any], Bad]:
    """Cast every column of a table of texts; a row that is bad in several columns reports the first."""
    arrays: list[Any] = []
    bad: Bad = {}
    for column, values in zip(columns, texts, strict=True):
        array, of_column = column.cast(values)
        arrays.append(array)
        for row, detail in of_column.items():
            bad.setdefault(row, detail)
    return arrays, bad
