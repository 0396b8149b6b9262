"""`raw`: the record as it is, in one column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pytubemq.decode.columns import Column, Type
from pytubemq.decode.record_format import Fault, FormatResult, without
from pytubemq.decode.text_columns import texts_of
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.decode.format_options import OptionValues


class RawFormat:
    """One column: bytes, or text of the charset."""

    def __init__(self, columns: tuple[Column, ...] | None, values: OptionValues) -> None:
        self.columns = columns or (Column("value", Type("binary")),)
        if len(self.columns) != 1 or self.columns[0].type.name not in ("binary", "string"):
            raise ConfigError(
                "the format raw makes one column, BINARY or STRING",
                hint='as in decode.schema = "line STRING"; for more columns use csv, kv or json',
            )
        self._is_text = self.columns[0].type.name == "string"
        self._charset = values.text("charset")

    def decode(self, data: Any, *, leading: Sequence[Any] = ()) -> FormatResult:
        """Decode one row for each record."""
        if not self._is_text:
            return FormatResult([data])
        texts, rows = texts_of(data, self._charset)
        faults = [Fault(row, f"column {self.columns[0].name}: the bytes are not {self._charset}") for row in rows]
        return without(FormatResult([texts.cast(pa.string())], None, faults), set(rows))
