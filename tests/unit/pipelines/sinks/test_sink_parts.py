"""What sinks decide without Spark: which columns fit, and the SQL that they write."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructType

from pytubemq.errors import ConfigError
from pytubemq.pipelines import sql
from pytubemq.pipelines.file.model import OnSchemaChange, Sink
from pytubemq.pipelines.frames.source import Opened
from pytubemq.pipelines.sinks.columns import reconcile
from pytubemq.pipelines.sinks.delta.writer import rows_taken
from pytubemq.pipelines.sinks.jdbc.options import jdbc_options
from pytubemq.pipelines.sinks.jdbc.table import with_local_times
from pytubemq.pipelines.sinks.jdbc.trial import check_kept
from pytubemq.pipelines.sinks.kafka.writer import is_kafka_s_own
from pytubemq.pipelines.sinks.partition_columns import OF_ICEBERG, refuse_other_parts, refuse_parts
from pytubemq.pipelines.sinks.sink_factory import make_sink
from pytubemq.pipelines.sinks.sink_writer import batch_label

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


@pytest.mark.parametrize(
    ("rows", "kept", "hint"),
    [
        ("decimal(38,10)", "decimal(31,3)", "CAST(`c` AS decimal(31,10))"),
        ("timestamp_ntz", "timestamp", "CAST(`c` AS timestamp)"),
        ("long", "integer", "CAST(`c` AS int)"),
    ],
)
def test_a_column_that_a_new_table_would_not_keep_is_refused_with_the_type_that_it_would(
    rows: str, kept: str, hint: str
) -> None:
    with pytest.raises(ConfigError, match=r"sink s: column c is .*, which the database would store as") as caught:
        check_kept(schema(("c", rows)), schema(("c", kept)), sink="s")
    assert caught.value.hint == f"cast it in a step: {hint}"
    check_kept(schema(("c", "byte"), ("d", "float")), schema(("c", "short"), ("d", "double")), sink="s")


def test_a_time_without_a_zone_is_one_in_the_table_where_the_rows_have_one() -> None:
    there, local = (schema(("A", kind), ("b", kind), ("c", "timestamp")) for kind in ("timestamp", "timestamp_ntz"))
    found = with_local_times(there, local, schema(("a", "timestamp_ntz"), ("b", "timestamp"), ("c", "timestamp_ntz")))
    assert found.simpleString() == "struct<A:timestamp_ntz,b:timestamp,c:timestamp>"


def test_names_cannot_break_out_of_sql() -> None:
    assert sql.quoted("a`b") == "`a``b`"
    assert sql.quoted('a"b', '"') == '"a""b"'
    inner = {"type": "struct", "fields": [{"name": "c`d", "type": "long", "nullable": True, "metadata": {}}]}
    listed = {"type": "array", "elementType": inner, "containsNull": True}
    fields = [{"name": "a", "type": listed, "nullable": True, "metadata": {}}]
    columns = StructType.fromJson({"type": "struct", "fields": fields})
    assert sql.columns_ddl(columns) == "`a` array<struct<`c``d`: bigint>>"


def test_input_has_columns_whatever_is_in_their_names() -> None:
    class Rows:
        def select(self, *names: str) -> tuple[str, ...]:
            return names

    rows: Any = Rows()
    seen: Any = Opened(rows, ("a", "b`c"), decoded=False).accepted()
    assert seen == ("`a`", "`b``c`")


@pytest.mark.parametrize(
    ("metrics", "rows"),
    [
        ({"numOutputRows": "7"}, 7),
        ({"numSourceRows": "15", "numTargetRowsCopied": "990", "numOutputRows": "1005"}, 15),
        ({"numSourceRows": "0", "numTargetRowsCopied": "0", "numOutputRows": "0"}, 0),
        ({}, 0),
    ],
)
def test_rows_that_delta_only_copied_are_none_of_the_batch(metrics: dict[str, str], rows: int) -> None:
    assert rows_taken(metrics) == rows


def test_a_merge_of_keys_alone_replaces_nothing() -> None:
    assert "WHEN MATCHED" not in sql.merge("t", "s", ["a"], ["a"])
    assert sql.merge("t", "s", ["a"], ["a", "b"]) == (
        "MERGE INTO t t USING s s ON t.`a` = s.`a` WHEN MATCHED THEN UPDATE SET `b` = s.`b` "
        "WHEN NOT MATCHED THEN INSERT (`a`, `b`) VALUES (s.`a`, s.`b`)"
    )


def test_the_driver_is_known_by_the_url_unless_it_is_named() -> None:
    assert jdbc_options("jdbc:postgresql://x/y", {}, sink="s")["driver"] == "org.postgresql.Driver"
    assert jdbc_options("jdbc:odd:x", {"Driver": "a.B"}, sink="s") == {"Driver": "a.B", "queryTimeout": "600"}
    with pytest.raises(ConfigError, match="sink s: the driver of this url is not known"):
        jdbc_options("jdbc:odd:x", {}, sink="s")


@pytest.mark.parametrize("url", ["jdbc:oracle:thin:@//h:1521/x", "jdbc:sqlserver://h"])
def test_databases_that_a_batch_cannot_be_moved_in_are_refused_even_with_a_driver(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sink s: .*cannot be moved there in one transaction"):
        make_sink(Sink("s", "jdbc", url=url, table="t", options={"driver": "a.B"}))


@pytest.mark.parametrize(
    ("url", "given", "added"),
    [
        ("jdbc:postgresql://x/y", {}, {"loginTimeout": "30", "socketTimeout": "660", "queryTimeout": "600"}),
        ("jdbc:mysql://x/y", {}, {"connectTimeout": "30000", "socketTimeout": "660000", "queryTimeout": "600"}),
        ("jdbc:postgresql://x/y", {"QueryTimeout": "9"}, {"loginTimeout": "30", "socketTimeout": "69"}),
        ("jdbc:postgresql://x/y", {"queryTimeout": "0"}, {"loginTimeout": "30", "socketTimeout": "0"}),
        ("jdbc:postgresql://x/y?SocketTimeout=5", {"logintimeout": "1"}, {"queryTimeout": "600"}),
    ],
)
def test_every_wait_for_a_database_has_a_bound_that_the_file_can_set(
    url: str, given: dict[str, str], added: dict[str, str]
) -> None:
    options = jdbc_options(url, given, sink="s")
    del options["driver"]
    options.pop("stringtype", None)
    assert options == {**given, **added}


@pytest.mark.parametrize(
    ("url", "given", "kind"),
    [
        ("jdbc:postgresql://x/y", {}, "unspecified"),
        ("jdbc:postgresql://x/y", {"stringtype": "varchar"}, "varchar"),
        ("jdbc:postgresql://x/y?stringtype=varchar", {}, None),
        ("jdbc:derby:x", {}, None),
    ],
)
def test_postgresql_reads_a_text_as_what_the_column_is_unless_the_file_says_otherwise(
    url: str, given: dict[str, str], kind: str | None
) -> None:
    assert jdbc_options(url, given, sink="s").get("stringtype") == kind


def test_a_timeout_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="queryTimeout = 'long' is not a number of seconds"):
        jdbc_options("jdbc:postgresql://x/y", {"queryTimeout": "long"}, sink="s")


@pytest.mark.parametrize(
    ("columns", "keys", "own"),
    [
        ([("key", "binary"), ("value", "string"), ("partition", "integer")], (), True),
        ([("key", "string"), ("value", "string")], ("key",), True),
        ([("n", "integer"), ("value", "string")], (), False),
        ([("value", "double")], (), False),
        ([("n", "string"), ("partition", "integer"), ("key", "string")], (), False),
        ([("partition", "long"), ("value", "binary")], (), False),
        ([("key", "string"), ("value", "string")], ("value",), False),
    ],
)
def test_rows_go_to_kafka_as_they_are_only_if_nothing_of_them_would_be_passed_over(
    columns: list[tuple[str, str]], keys: tuple[str, ...], own: bool
) -> None:
    assert is_kafka_s_own(schema(*columns), keys) is own


@pytest.mark.parametrize("kind", ["timestamp", "binary"])
def test_iceberg_files_are_not_parted_by_what_a_directory_s_name_cannot_tell(kind: str) -> None:
    columns = schema(("at", kind), ("day", "date"), ("d", "decimal(9,2)"), ("t", "string"))
    refuse_parts(["Day", "d", "t"], columns, only=OF_ICEBERG)
    with pytest.raises(ConfigError, match=f"files cannot be partitioned by at, which is a {kind}"):
        refuse_parts(["at"], columns, only=OF_ICEBERG)
    with pytest.raises(ConfigError, match=r"partitioned by x\.y, which is a field of a struct"):
        refuse_parts(["x.y"], columns, only=OF_ICEBERG)


def test_no_files_are_parted_by_a_nested_column_or_by_all_columns() -> None:
    from pyspark.sql.types import IntegerType, MapType, NullType, StringType, StructField

    columns = schema(("n", "integer"), ("at", "timestamp"))
    refuse_parts(["at"], columns)
    with pytest.raises(ConfigError, match="partition_by names every column"):
        refuse_parts(["N", "at"], columns)
    for kind, said in ((MapType(StringType(), IntegerType()), "map<string,int>"), (NullType(), "void")):
        with pytest.raises(ConfigError, match=f"files cannot be partitioned by v, which is a {said}"):
            refuse_parts(["v"], StructType([*columns.fields, StructField("v", kind)]))


def test_partition_by_is_what_divides_the_table_that_is_there_or_says_nothing() -> None:
    refuse_other_parts([], ["day"])
    refuse_other_parts(["Day"], ["day"])
    with pytest.raises(ConfigError, match="partition_by is hour, but the existing table is partitioned by day"):
        refuse_other_parts(["hour"], ["day"])
    with pytest.raises(ConfigError, match="partitioned by no column"):
        refuse_other_parts(["hour"], [])


def test_a_column_that_a_batch_s_directory_would_hide_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sink s: partition_by: readers would see .* in place of .* Batch"):
        make_sink(Sink("s", "parquet", path="/x", partition_by=("Batch",)))
    make_sink(Sink("s", "parquet", path="/x", partition_by=("Batch",), layout="log"))


def test_the_name_of_a_batch_s_directory_is_no_number_and_no_date() -> None:
    assert batch_label("orders-0f9b3c1e-0000-4000-8000-123456789012") == "q123456789012"
