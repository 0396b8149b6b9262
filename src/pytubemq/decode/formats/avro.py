"""`avro`: a record of a known schema without a file's header, plain or as a single object (C3 01 and a fingerprint).

The schema of the writer is an option. Read by fastavro. The invariant: a datum is read to its last byte, or rejected.
"""

from __future__ import annotations

import io
from datetime import time
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import fastavro
import pyarrow as pa

from pytubemq.decode.arrow_types import arrow_schema_of
from pytubemq.decode.formats.avro_schema import columns_of_record, fingerprint, parse_schemas
from pytubemq.decode.record_format import Fault, FormatResult, without
from pytubemq.decode.rejection import shown
from pytubemq.decode.text_columns import TextRules
from pytubemq.decode.value_columns import ValueColumn, build_all
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.decode.columns import Column
    from pytubemq.decode.format_options import OptionValues

SINGLE_OBJECT: Final = b"\xc3\x01"
_HEAD_BYTES: Final = 10
_MALFORMED: Final = (
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    StopIteration,
)


class AvroFormat:
    """Columns of the record's fields: all of them, or those that the schema names."""

    def __init__(self, columns: tuple[Column, ...] | None, values: OptionValues) -> None:
        text = values.text_or_none("avroSchema")
        if text is None:
            raise ConfigError("the format avro needs the option avroSchema", hint="the writer's schema, as JSON")
        schemas = parse_schemas(text)
        self._single = values.text("encoding") == "single-object"
        if len(schemas) > 1 and not self._single:
            raise ConfigError(
                "option avroSchema has several schemas, and a plain datum does not say which is its own",
                hint="give one, or encoding=single-object",
            )
        self._schemas = {fingerprint(schema): schema for schema in schemas}
        self._schema = schemas[0]
        self.columns = columns if columns is not None else columns_of_record(schemas[-1])
        self._check_fields(schemas)
        rules = TextRules(ignore_errors=values.flag("ignoreErrors"))
        schema = arrow_schema_of(self.columns)
        self._build = [
            ValueColumn(column, field.type, rules, cast_strings=False)
            for column, field in zip(self.columns, schema, strict=True)
        ]

    def decode(self, data: Any, *, leading: Sequence[Any] = ()) -> FormatResult:
        """Decode one row for each record."""
        faults: list[Fault] = []
        rows: list[dict[str, Any]] = []
        records: list[int] = []
        for record, body in enumerate(data.to_pylist()):
            try:
                if body is None:
                    raise ValueError("there is no body")
                rows.append(self._datum(body))
            except _MALFORMED as error:
                faults.append(Fault(record, f"not a datum of the schema: {shown(str(error) or type(error).__name__)}"))
                continue
            records.append(record)
        values = [[_plain(row.get(column.name)) for row in rows] for column in self.columns]
        arrays, bad = build_all(self._build, values)
        faults += [Fault(records[row], detail) for row, detail in bad.items()]
        kept = None if len(records) == len(data) else pa.array(records, pa.int64())
        return without(FormatResult(arrays, kept, faults), bad)

    def _datum(self, body: bytes) -> dict[str, Any]:
        schema = self._schema
        stream = io.BytesIO(body)
        if self._single:
            if body[:2] != SINGLE_OBJECT or len(body) < _HEAD_BYTES:
                raise ValueError("it does not begin with C3 01 and a fingerprint")
            found = self._schemas.get(body[2:_HEAD_BYTES])
            if found is None:
                raise ValueError(f"no schema has the fingerprint {body[2:_HEAD_BYTES].hex()}")
            schema = found
            stream.seek(_HEAD_BYTES)
        datum = fastavro.schemaless_reader(stream, schema, None)
        if stream.tell() != len(body):
            raise ValueError(f"{len(body) - stream.tell()} bytes after the end of the record")
        assert isinstance(datum, dict)
        return datum

    def _check_fields(self, schemas: list[Any]) -> None:
        known = {field["name"] for schema in schemas for field in schema["fields"]}
        for column in self.columns:
            if column.name not in known:
                raise ConfigError(
                    f"column {column.name}: the Avro schema has no such field",
                    hint=f"it has {', '.join(sorted(known))}",
                )


def _plain(value: Any) -> Any:
    """Convert a value of a logical type to what the columns take."""
    match value:
        case UUID():
            return str(value)
        case time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case _:
            return value
