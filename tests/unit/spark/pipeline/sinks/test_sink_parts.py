"""What sinks decide without Spark: which columns fit, and the SQL that they write."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.sinks import sql
from pytubemq.spark.pipeline.sinks.columns import reconcile
from pytubemq.spark.pipeline.sinks.jdbc_database import driver_class
from pytubemq.spark.pipeline.sinks.parquet import batch_label
from pytubemq.spark.pipeline.spec.model import OnSchemaChange

NARROW = [("n", "integer"), ("t", "string")]


def schema(*columns: tuple[str, str]) -> StructType:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    return StructType.fromJson({"type": "struct", "fields": fields})


@pytest.mark.parametrize("policy", list(OnSchemaChange))
def test_rows_that_fit_change_nothing_whatever_the_policy_and_the_case_of_names(policy: OnSchemaChange) -> None:
    change = reconcile(schema(("T", "string"), ("N", "integer")), schema(*NARROW), policy, sink="s")
    assert change.is_none
    assert change.columns.names == ["n", "t"]


@pytest.mark.parametrize(
    ("rows", "policy", "said"),
    [
        ([*NARROW, ("x", "double")], OnSchemaChange.FAIL, "sink s: the table lacks x"),
        ([("n", "integer")], OnSchemaChange.FAIL, "sink s: the rows lack t"),
        ([("n", "long"), ("t", "string")], OnSchemaChange.ADD_COLUMNS, "column n is bigint, but int in the table"),
        ([("n", "string"), ("t", "string")], OnSchemaChange.WIDEN, "column n is string, but int in the table"),
        ([("n", "decimal(10,2)"), ("t", "string")], OnSchemaChange.WIDEN, r"column n is decimal\(10,2\)"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_the_policy(
    rows: list[tuple[str, str]], policy: OnSchemaChange, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        reconcile(schema(*rows), schema(*NARROW), policy, sink="s")


def test_a_table_follows_the_rows_as_far_as_the_policy_goes() -> None:
    rows = schema(("n", "long"), ("t", "string"), ("x", "double"))
    ignored = reconcile(rows, schema(*NARROW), OnSchemaChange.IGNORE, sink="s")
    assert ignored.is_none
    widened = reconcile(rows, schema(*NARROW), OnSchemaChange.WIDEN, sink="s")
    assert [field.name for field in widened.added] == ["x"]
    assert [field.name for field in widened.widened] == ["n"]
    assert widened.columns.simpleString() == "struct<n:bigint,t:string,x:double>"


def test_a_narrower_column_fits_a_wider_table_and_decimals_by_their_digits() -> None:
    table = schema(("n", "long"), ("d", "decimal(12,2)"))
    assert reconcile(schema(("n", "short"), ("d", "decimal(10,2)")), table, OnSchemaChange.FAIL, sink="s").is_none
    with pytest.raises(ConfigError, match="column d"):
        reconcile(schema(("n", "short"), ("d", "decimal(12,4)")), table, OnSchemaChange.FAIL, sink="s")


def test_names_and_texts_cannot_break_out_of_sql() -> None:
    assert sql.quoted("a`b") == "`a``b`"
    assert sql.quoted('a"b', '"') == '"a""b"'
    assert sql.text("it's \\") == "'it\\'s \\\\'"


def test_a_merge_of_keys_alone_replaces_nothing() -> None:
    assert "WHEN MATCHED" not in sql.merge("t", "s", ["a"], ["a"])
    assert sql.merge("t", "s", ["a"], ["a", "b"]) == (
        "MERGE INTO t t USING s s ON t.`a` = s.`a` WHEN MATCHED THEN UPDATE SET `b` = s.`b` "
        "WHEN NOT MATCHED THEN INSERT (`a`, `b`) VALUES (s.`a`, s.`b`)"
    )


def test_the_driver_is_known_by_the_url_unless_it_is_named() -> None:
    assert driver_class("jdbc:postgresql://x/y", {}) == "org.postgresql.Driver"
    assert driver_class("jdbc:odd:x", {}) is None
    assert driver_class("jdbc:odd:x", {"driver": "a.B"}) == "a.B"


def test_the_name_of_a_batch_s_directory_is_no_number_and_no_date() -> None:
    assert batch_label("orders-0f9b3c1e-0000-4000-8000-123456789012") == "q123456789012"
