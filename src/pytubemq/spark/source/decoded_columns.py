"""Decoding inside the source: typed columns from `format("tubemq")`, without a second trip to Python.

The options: `decode` (the format), `decode.schema`, `decode.inner`, `decode.columns` (of the source's own columns,
those that stay), `decode.errors` (column, drop or fail) and `decode.<option>` for each option of the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField, StructType

from pytubemq.decode.dead_letter_columns import DEAD_LETTER_ARROW, ERROR_COLUMN, ORIGIN_COLUMNS
from pytubemq.decode.factory import make_decoder
from pytubemq.errors import ConfigError, FormatError
from pytubemq.model.suggest import suggest
from pytubemq.spark.source.schema import COLUMNS, spark_schema
from pytubemq.spark.spark_types import DEAD_LETTER_SCHEMA, spark_schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytubemq.decode.decoder import Decoded, Decoder

PREFIX: Final = "decode"
ERRORS: Final = ("column", "drop", "fail")
OWN_OPTIONS: Final = ("schema", "inner", "columns", "errors")
"""Names after `decode.` that are the source's; all others are the format's."""


class DecodedColumns:
    """The columns of decoded rows, and the decoding of batches to them."""

    def __init__(self, decoder: Decoder, *, keep: Sequence[str] = (), errors: str = "column") -> None:
        self.decoder = decoder
        self.keep = tuple(keep)
        self.errors = errors
        self._decoded_schema = spark_schema_of(decoder.columns)
        decoded = {column.name.lower() for column in decoder.columns}
        for name in self.keep:
            if name.lower() in decoded:
                raise ConfigError(
                    f"the column {name} would be there twice: decoded, and kept by decode.columns",
                    hint="leave it out of decode.columns, or give the decoded one another name",
                )

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> DecodedColumns | None:
        """Return what the options `decode` and `decode.*` describe; None where there are none. Others are ignored.

        Raises:
            ConfigError: one of them is not known, or does not fit the others.
        """
        given = {name.lower(): value for name, value in options.items()}
        ours = {name[len(PREFIX) + 1 :]: value for name, value in given.items() if name.startswith(f"{PREFIX}.")}
        if PREFIX not in given:
            if ours:
                raise ConfigError(
                    f"option {PREFIX}.{next(iter(ours))} without the option decode", hint="name the format: decode=json"
                )
            return None
        own = {name: ours.pop(name) for name in OWN_OPTIONS if name in ours}
        decoder = make_decoder(given[PREFIX], schema=own.get("schema"), inner=own.get("inner"), options=ours)
        return cls(decoder, keep=_kept(own.get("columns")), errors=_errors(own.get("errors")))

    def schema(self, raw: StructType | None = None) -> StructType:
        """Return the schema of the rows: decoded columns, kept columns of `raw`, `_error` if errors are a column."""
        raw = raw or spark_schema()
        fields = [*self._decoded_schema.fields, *(raw[name] for name in self.keep)]
        if self.errors == "column":
            fields.append(StructField(ERROR_COLUMN, DEAD_LETTER_SCHEMA))
        return StructType(fields)

    @property
    def raw_columns(self) -> tuple[str, ...]:
        """The source's columns that must be fetched."""
        wanted = {*self.decoder.needs, *self.keep}
        if self.errors == "column":
            wanted.update(ORIGIN_COLUMNS)
        elif self.errors == "fail":
            wanted.update(("topic", "brokerId", "partition", "offset"))
        known = [name for name in COLUMNS if name in wanted]
        return (*known, *(name for name in self.keep if name not in known))

    def decode(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Decode a batch of the source's columns.

        Raises:
            FormatError: a record cannot be decoded and `decode.errors` is fail.
        """
        for done in self.decoder.pieces(batch, keep=self.keep):
            if self.errors == "fail" and len(done.rejected):
                raise failure(done)
            if self.errors == "column":
                yield with_error_column(done, batch, self.keep)
            elif len(done.rows):
                yield done.rows


def with_error_column(done: Decoded, batch: Any, keep: Sequence[str]) -> pa.RecordBatch:
    """Join rows and rejected records in one batch with the column `_error`; rejected ones keep `keep` only."""
    kind = pa.struct(list(DEAD_LETTER_ARROW))
    schema = done.rows.schema.append(pa.field(ERROR_COLUMN, kind))
    fine, wrong = len(done.rows), len(done.rejected)
    if not wrong:
        return pa.RecordBatch.from_arrays([*done.rows.columns, pa.nulls(fine, kind)], schema=schema)
    arrays: list[Any] = []
    for field in done.rows.schema:
        if field.name in keep:
            more = pc.take(batch.column(field.name), done.rejected_rows)
        else:
            more = pa.nulls(wrong, field.type)
        arrays.append(pa.concat_arrays([done.rows.column(field.name), more]))
    arrays.append(pa.concat_arrays([pa.nulls(fine, kind), done.rejected.to_struct_array()]))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def failure(done: Decoded) -> FormatError:
    """Return the error to raise for the first rejected record."""
    first = done.rejected.slice(0, 1).to_pylist()[0]
    fields = ((name, first[name]) for name in ("topic", "brokerId", "partition", "offset", "record"))
    place = ", ".join(f"{name} {value}" for name, value in fields if value is not None)
    return FormatError(
        f"a record cannot be decoded ({first['reason']}: {first['detail']}){f' at {place}' if place else ''}",
        hint="decode.errors = column keeps such records in the column _error, drop leaves them out",
    )


def _kept(text: str | None) -> tuple[str, ...]:
    known = {name.lower(): name for name in (*COLUMNS, "messageId")}
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name.lower() not in known:
            close = suggest(name, known.values())
            hint = f"did you mean {close}?" if close else f"the source's columns are {', '.join(known.values())}"
            raise ConfigError(f"option decode.columns names {name!r}, which does not exist", hint=hint)
    return tuple(dict.fromkeys(known[name.lower()] for name in names))


def _errors(text: str | None) -> str:
    word = (text or "column").strip().lower()
    if word not in ERRORS:
        close = suggest(word, ERRORS)
        hint = f"did you mean {close}?" if close else f"it takes {', '.join(ERRORS)}"
        raise ConfigError(f"option decode.errors = {text!r} is not valid", hint=hint)
    return word
