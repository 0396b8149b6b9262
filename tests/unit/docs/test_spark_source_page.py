"""The reference page says what the tables say."""

from __future__ import annotations

from pytubemq.spark.source.schema import ALL_COLUMNS, spark_schema
from scripts.docs.spark_source import COLUMN_DOCS


def test_every_column_is_described_with_the_type_that_it_has() -> None:
    assert tuple(COLUMN_DOCS) == ALL_COLUMNS
    for field in spark_schema(ALL_COLUMNS):
        assert COLUMN_DOCS[field.name][0] == field.dataType.simpleString()
