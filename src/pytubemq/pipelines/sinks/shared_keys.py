"""Keys that several kinds of sinks take, in the same words."""

from __future__ import annotations

from typing import Final

from pytubemq.pipelines.file.key import Key, Kind
from pytubemq.pipelines.file.model import OnSchemaChange

PATH: Final = Key("path", Kind.TEXT, "directory or URI")
TABLE: Final = Key("table", Kind.TEXT, "")
PARTITION_BY: Final = Key("partition_by", Kind.TEXTS, "columns whose values name directories")
KEYS: Final = Key("keys", Kind.TEXTS, "columns that identify a row; a new row replaces the old one")
ON_SCHEMA_CHANGE: Final = Key(
    "on_schema_change", Kind.CHOICE, "what happens when rows have columns other than those of the table",
    default=OnSchemaChange.FAIL.value, enum=OnSchemaChange,
)  # fmt: skip
