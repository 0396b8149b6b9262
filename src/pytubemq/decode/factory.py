"""Construction of a decoder from a format's name and options: `make_decoder`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pytubemq.decode.columns import columns_of
from pytubemq.decode.dead_letter_columns import ERROR_COLUMN
from pytubemq.decode.decoder import Decoder
from pytubemq.decode.format_options import choose
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.decode.columns import Column, Schema
    from pytubemq.decode.format_options import ChosenFormat
    from pytubemq.decode.record_format import RecordFormat

POSITIONAL: Final = ("csv", "kv")
"""Formats whose first columns may be predefined fields of InLongMsg."""


def make_decoder(
    format: str,
    *,
    schema: Schema = None,
    inner: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Decoder:
    """Return a decoder of a format (`format_table.FORMATS`), picklable.

    `schema` names the columns, as Spark writes them (`id BIGINT, at TIMESTAMP`) or as a StructType; a column that is
    NOT NULL rejects records without it. `inner` is the format inside of InLongMsg. Options by name, in any case.

    Raises:
        ConfigError: a format, an option, a value or a type is not known or does not fit the format; the hint has the
            nearest name.
    """
    columns = columns_of(schema)
    chosen = choose(format, options or {}, inner=inner, has_schema=columns is not None)
    decoder = _decoder(chosen, columns, (format, schema, inner, dict(options or {})), records=False)
    names = [column.name.lower() for column in decoder.columns]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"two decoded columns are called {name!r}", hint="rename the one in the schema, or the wrapper's"
            )
    if ERROR_COLUMN in names:
        raise ConfigError(f"a decoded column is called {ERROR_COLUMN}", hint="that name is for what was rejected")
    return decoder


def remake(
    format: str, schema: Schema, inner: str | None, options: Mapping[str, str], *, records: bool = False
) -> Decoder:
    """Rebuild a decoder from its arguments: for pickle, and for records that were taken out of messages before."""
    columns = columns_of(schema)
    chosen = choose(format, options, inner=inner, has_schema=columns is not None)
    return _decoder(chosen, columns, (format, schema, inner, options), records=records)


def _decoder(
    chosen: ChosenFormat, columns: tuple[Column, ...] | None, arguments: tuple[Any, ...], *, records: bool
) -> Decoder:
    record = chosen.inner or chosen
    wrapper = None
    if chosen.inner is not None:
        from pytubemq.decode.inlong.unwrap import InLongWrapper

        wrapper = InLongWrapper(chosen.values, positional=record.format.name in POSITIONAL, single=records)
    return Decoder(
        arguments,
        record.format.name,
        _record_format(record, columns),
        wrapper=wrapper,
        line_delimiter=None if records else record.values.text_or_none("lineDelimiter"),
        remake=partial(remake, records=records),
    )


def _record_format(chosen: ChosenFormat, columns: tuple[Column, ...] | None) -> RecordFormat:
    """Return the format of the records; its module is loaded only where it is used."""
    values = chosen.values
    match chosen.format.name:
        case "raw":
            from pytubemq.decode.formats.raw import RawFormat

            return RawFormat(columns, values)
        case "csv":
            from pytubemq.decode.formats.csv import CsvFormat

            return CsvFormat(columns or (), values)
        case "json":
            from pytubemq.decode.formats.json import JsonFormat

            return JsonFormat(columns or (), values)
        case "kv":
            from pytubemq.decode.formats.kv import KvFormat

            return KvFormat(columns or (), values)
        case "avro":
            from pytubemq.decode.formats.avro import AvroFormat

            return AvroFormat(columns, values)
        case "canal-json":
            from pytubemq.decode.formats.canal import CanalFormat

            return CanalFormat(columns or (), values)
        case _:
            from pytubemq.decode.formats.debezium import DebeziumFormat

            return DebeziumFormat(columns or (), values)
