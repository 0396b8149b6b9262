"""Rows put into a table's columns, whatever their types are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from pytubemq.pipelines.file.model import OnSchemaChange
from pytubemq.pipelines.sinks.columns import fitted, reconcile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = """number INT, part STRUCT<a: INT>, day DATE, words STRING, list ARRAY<INT>, flag DATE, late DATE, small INT,
    same ARRAY<INT>, text INT"""
ROWS = """SELECT array(1) AS number, struct(1 AS a, 2 AS b) AS part, 7 AS day, array('x') AS words, 'x' AS list,
    true AS flag, timestamp'2026-01-02 03:04:05' AS late, 3000000000L AS small, array(4) AS same, 'seven' AS text,
    'more' AS other"""


def test_what_does_not_fit_is_null_whatever_its_type_where_changes_are_ignored(spark: SparkSession) -> None:
    rows, table = spark.sql(ROWS), spark.createDataFrame([], TABLE).schema
    change = reconcile(rows.schema, table, OnSchemaChange.IGNORE, sink="s")
    made = fitted(rows, change.columns, policy=OnSchemaChange.IGNORE)
    assert [field.dataType for field in made.schema] == [field.dataType for field in table]
    (row,) = made.collect()
    fits = {name: value for name, value in row.asDict().items() if value is not None}
    assert {name: str(value) for name, value in fits.items()} == {"words": "[x]", "late": "2026-01-02", "same": "[4]"}


def test_what_is_wrong_with_the_rows_themselves_is_not_passed_over(spark: SparkSession) -> None:
    rows, table = spark.sql("SELECT 1 AS a, 2 AS A"), spark.createDataFrame([], "a INT").schema
    with pytest.raises(AnalysisException, match="AMBIGUOUS"):
        fitted(rows, table, policy=OnSchemaChange.IGNORE)
