"""Each sink on its real target: batches that come twice, keys, changes of columns, targets that are not there."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pytubemq.decode import make_decoder
from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import Sink
from pytubemq.pipelines.sinks.sink_factory import make_sink
from pytubemq.pipelines.sinks.sink_writer import SinkContext
from tests.spark.kafka import KafkaNode
from tests.spark.pipeline.sink_session import SinkSession
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from tests.spark.conftest import Topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

COLUMNS = "n INT, t STRING"
AT = datetime(2026, 11, 22, 1, 2, 3, 123456, tzinfo=UTC)
ROWS = [[1, "a"], [2, "b"], [3, "c"]]
FIRST = {"id": 0, "rows": ROWS, "schema": COLUMNS, "asked": True}
KEYED = {"id": 1, "rows": [[1, "z"], [9, "n"]], "schema": COLUMNS}
MORE = {"id": 1, "rows": [[4, "d", 0.5]], "schema": "n INT, t STRING, x DOUBLE"}
WIDER = {"id": 2, "rows": [[1 << 40, "e", 1.5]], "schema": "n BIGINT, t STRING, x DOUBLE"}
ONCE = [{"before": None, "written": 3, "after": 3}, {"before": 3, "written": 3, "after": 3}]
"""What is told of a batch that comes twice."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkSession]:
    with SinkSession(tmp_path_factory.mktemp("sinks")) as session:
        yield session


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres")) as postgres:
        yield postgres


def reader(session: SinkSession, sink: dict[str, Any]) -> Callable[[str], list[list[str]]]:
    """What reads columns of a sink's table, each value as text, sorted."""

    def read(columns: str) -> list[list[str]]:
        if sink["format"] == "iceberg":
            rows = session.call("iceberg", table=sink["table"])
        elif sink["format"] == "jdbc":
            rows = session.call("jdbc", url=sink["url"], table=sink["table"], options=sink.get("options", {}))
        else:
            rows = session.call("query", select=f"SELECT {columns} FROM {sink['format']}.`{sink['path']}`")
        return sorted([str(value) for value in row] for row in rows)

    return read


def target(format: str, tmp_path: Path, postgres: Callable[[], Postgres]) -> dict[str, Any]:
    """A sink of a format with a target that is not there yet."""
    if format in ("parquet", "delta"):
        return {"format": format, "path": str(tmp_path / "table")}
    if format == "iceberg":
        return {"format": format, "table": f"ice.db.{tmp_path.name}"}
    if format == "derby":
        return {"format": "jdbc", "url": f"jdbc:derby:{tmp_path / 'derby'};create=true", "table": "rows_of_n"}
    server = postgres()
    options = {"user": server.user, "password": server.password, "driver": "org.postgresql.Driver"}
    return {"format": "jdbc", "url": server.url, "table": tmp_path.name, "options": options}


@pytest.mark.parametrize("format", ["parquet", "delta", "iceberg", "derby", "postgres"])
def test_a_batch_that_comes_twice_is_there_once_and_the_table_follows_its_columns(
    session: SinkSession, tmp_path: Path, request: pytest.FixtureRequest, format: str
) -> None:
    sink = target(format, tmp_path, lambda: request.getfixturevalue("postgres"))
    read = reader(session, sink)
    told = session.call("write", sink=sink, batches=[FIRST, FIRST])
    assert told["told"] == ONCE
    assert read("n, t") == [["1", "a"], ["2", "b"], ["3", "c"]]

    refused = session.call("write", sink=sink, batches=[MORE])["refused"]
    assert refused.splitlines()[0] == "sink out: the table lacks x"
    refused = session.call("write", sink=sink, batches=[{**WIDER, "schema": "n BIGINT, t STRING"}])["refused"]
    assert "column n is bigint, but int in the table" in refused
    session.call("write", sink={**sink, "on_schema_change": "add-columns"}, batches=[MORE])
    ignored = {"id": 2, "rows": [[5]], "schema": "n INT"}
    session.call("write", sink={**sink, "on_schema_change": "ignore"}, batches=[ignored])
    if format == "parquet":  # readers of mixed files give the columns themselves
        return
    rows = [["1", "a", "None"], ["2", "b", "None"], ["3", "c", "None"], ["4", "d", "0.5"], ["5", "None", "None"]]
    assert read("n, t, x") == rows
    told = session.call("write", sink={**sink, "on_schema_change": "widen"}, batches=[{**WIDER, "id": 3}])["told"]
    if format == "derby":
        assert "changes in PostgreSQL only" in told[0]
    else:
        assert read("n, t, x") == sorted([*rows, [str(1 << 40), "e", "1.5"]])


@pytest.mark.parametrize("format", ["delta", "derby", "postgres"])
def test_with_keys_a_row_takes_the_place_of_the_one_that_is_there(
    session: SinkSession, tmp_path: Path, request: pytest.FixtureRequest, format: str
) -> None:
    sink = {**target(format, tmp_path, lambda: request.getfixturevalue("postgres")), "keys": ["n"]}
    told = session.call("write", sink=sink, batches=[FIRST, FIRST, KEYED, KEYED], pipeline_id="k-0123456789ac")["told"]
    assert [batch["written"] for batch in told] == [3, 3, 2, 2]
    assert reader(session, sink)("n, t") == [["1", "z"], ["2", "b"], ["3", "c"], ["9", "n"]]


@pytest.mark.parametrize("format", ["derby", "postgres"])
def test_a_database_keeps_what_a_column_holds_or_the_sink_refuses_it(
    session: SinkSession, tmp_path: Path, request: pytest.FixtureRequest, format: str
) -> None:
    sink = target(format, tmp_path, lambda: request.getfixturevalue("postgres"))
    write = partial(session.call, "write", sink=sink, pipeline_id="d-0123456789ad")
    one = {"id": 0, "rows": [[1]], "schema": "n INT"}
    refused = write(batches=[{**one, "select": ["n", "map('a', n) AS m"]}])["refused"]
    assert "the database has no type for the column m, which is map<string,int>" in refused
    assert "to_json(`m`)" in refused
    if format == "derby":
        refused = write(batches=[{**one, "select": ["CAST(n AS DECIMAL(38, 10)) AS d"]}])["refused"]
        assert "column d is decimal(38,10), which the database would store as decimal(31," in refused
        assert "CAST(`d` AS decimal(31,10))" in refused
    kept = [
        "n", "TIMESTAMP_NTZ '2026-11-22 01:02:03' AS local", "TIMESTAMP '2026-11-22 01:02:03Z' AS at",
        "CAST(n / 3 AS DECIMAL(31, 10)) AS d", "CAST(n AS FLOAT) AS f", "CAST(n AS TINYINT) AS y", "n > 0 AS b",
        "DATE '2026-11-22' AS day", "CAST('x' AS BINARY) AS raw",
    ]  # fmt: skip
    told = write(batches=[{**one, "id": batch, "select": kept} for batch in range(2)])["told"]
    assert [batch["written"] for batch in told] == [1, 1]
    rows = reader(session, sink)("*")
    assert [row[:4] for row in rows] == [["1", "2026-11-22 01:02:03", "2026-11-22 01:02:03", "0.3333333333"]] * 2


def test_keys_name_the_columns_of_a_database_s_table_in_any_case(session: SinkSession, tmp_path: Path) -> None:
    sink = {**target("derby", tmp_path, pytest.fail), "keys": ["n"]}
    options = {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    made = ["CREATE TABLE rows_of_n (n INT PRIMARY KEY, t VARCHAR(20))"]  # its columns are N and T
    assert session.call("run_sql", url=sink["url"], options=options, statements=made) is None
    told = session.call("write", sink=sink, batches=[FIRST, KEYED], pipeline_id="c-0123456789ae")["told"]
    assert [batch["written"] for batch in told] == [3, 2]
    assert reader(session, sink)("*") == [["1", "z"], ["2", "b"], ["3", "c"], ["9", "n"]]


def test_a_table_that_no_batch_could_be_moved_to_is_refused_by_the_check(
    session: SinkSession, postgres: Postgres
) -> None:
    options = {"user": postgres.user, "password": postgres.password, "driver": "org.postgresql.Driver"}
    run = partial(session.call, "run_sql", url=postgres.url, options=options)
    made = [
        "CREATE TABLE no_index (n INT, t TEXT)", "CREATE TABLE no_boolean (n INT, t BIT(1))",
        "CREATE TABLE no_texts (n INT, t UUID[])", "CREATE TABLE of_the_index_key (n INT)",
    ]  # fmt: skip
    assert run(statements=made) is None
    write = partial(session.call, "write", pipeline_id="m-0123456789af")
    for table, keys, columns, said, hint in (
        ("no_index", ["n"], "n INT, t STRING", "no unique or exclusion constraint", "CREATE UNIQUE INDEX ON table"),
        ("no_boolean", [], "n INT, t BOOLEAN", 'column "t" is of type bit', "give the table a column of that type"),
        ("no_texts", [], "n INT, t ARRAY<STRING>", 'column "t" is of type uuid[]', "give the table a column of that"),
    ):
        sink = {"format": "jdbc", "url": postgres.url, "table": table, "keys": keys, "options": options}
        refused = write(sink=sink, batches=[{"id": 0, "rows": [], "schema": columns}])["refused"]
        assert said in refused.splitlines()[0]
        assert hint in refused.splitlines()[1]

    sink = {"format": "jdbc", "url": postgres.url, "table": "of_the_index", "keys": ["N"], "options": options}
    told = write(sink=sink, batches=[FIRST | {"asked": False}])["told"]
    assert 'relation "of_the_index_key" already exists' in told[0]
    assert run(statements=["DROP TABLE of_the_index_key"]) is None
    assert [batch["written"] for batch in write(sink=sink, batches=[FIRST, KEYED])["told"]] == [3, 2]
    probes = "(SELECT relname FROM pg_class WHERE relname LIKE 'tubemq_probe%') p"
    assert session.call("jdbc", url=postgres.url, table=probes, options=options) == []


def test_texts_go_into_the_types_that_postgresql_keeps_as_texts_for_spark_and_none_stops_a_batch_by_a_zero(
    session: SinkSession, postgres: Postgres
) -> None:
    options = {"user": postgres.user, "password": postgres.password, "driver": "org.postgresql.Driver"}
    made = [
        "CREATE TYPE mood AS ENUM ('glad')",
        "CREATE TABLE of_texts (id UUID PRIMARY KEY, j JSONB, m MOOD, i INET, t TEXT, a TEXT[])",
    ]
    assert session.call("run_sql", url=postgres.url, options=options, statements=made) is None
    sink = {"format": "jdbc", "url": postgres.url, "table": "of_texts", "keys": ["id"], "options": options}
    id = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
    rows = [[id, '{"a": 1}', "glad", "10.0.0.1", text, ["\0", None]] for text in ("x", "a\0b")]
    columns = "id STRING, j STRING, m STRING, i STRING, t STRING, a ARRAY<STRING>"
    batches = [{"id": batch, "rows": [row], "schema": columns} for batch, row in enumerate(rows)]
    told = session.call("write", sink=sink, batches=batches, pipeline_id="t-0123456789b0")["told"]
    assert [batch["written"] for batch in told] == [1, 1]
    kept = [id, '{"a": 1}', "glad", "10.0.0.1", "a\ufffdb", str(["\ufffd", None])]
    assert reader(session, sink)("*") == [kept]


def test_iceberg_files_are_parted_by_columns_whatever_their_values(session: SinkSession, tmp_path: Path) -> None:
    sink = {"format": "iceberg", "table": "ice.db.parted", "partition_by": ["t"]}
    session.call("write", sink=sink, batches=[{"id": 0, "rows": [[1, "a b/c=d"], [2, None]], "schema": COLUMNS}])
    assert session.call("iceberg", table="ice.db.parted") == [["1", "a b/c=d"], ["2", "None"]]
    days = {"format": "iceberg", "table": "ice.db.days", "partition_by": ["a:day"]}
    by_day = {"id": 0, "rows": [[1, "2026-11-22"]], "schema": "n INT, t STRING", "select": ["n", "DATE(t) AS `a:day`"]}
    assert session.call("write", sink=days, batches=[by_day])["told"][0]["written"] == 1
    assert session.call("iceberg", table="ice.db.days") == [["1", "2026-11-22"]]


def test_what_iceberg_cannot_take_is_refused_by_the_check_and_nothing_is_left(
    session: SinkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    below = {"type": "hadoop", "warehouse": str(tmp_path / "file" / "lake")}
    session.call("describe", settings={f"spark.sql.catalog.below.{name}": value for name, value in below.items()})

    def refused(table: str, *select: str, **more: Any) -> str:
        batch = {"id": 0, "rows": [[1, "a"]], "schema": COLUMNS, "select": [*select] or ["*"]}
        sink = {"format": "iceberg", "table": table, **more}
        return str(session.call("write", sink=sink, batches=[batch]).get("refused"))

    assert "sink out: ice.odd.t: Invalid schema for v2" in refused("ice.odd.t", "n", "NULL AS v")
    assert "sink out: ice.odd.t: Not a supported type: interval" in refused("ice.odd.t", "INTERVAL 1 DAY AS v")
    assert "cannot be written: Parent path is not a directory" in refused("below.odd.t")
    assert "partition_by names every column" in refused("ice.odd.t", partition_by=["n", "t"])
    assert refused("ice.odd.t", partition_by=["T"]) == "None"
    assert "partition_by is n, but the existing table is partitioned by t" in refused("ice.odd.t", partition_by=["n"])


def test_an_iceberg_catalog_that_holds_connections_gives_them_back_with_each_batch(
    session: SinkSession, postgres: Postgres, tmp_path: Path
) -> None:
    of_catalog = {
        "type": "jdbc", "uri": f"{postgres.url}?ApplicationName=catalog",
        "jdbc.user": postgres.user, "jdbc.password": postgres.password,
    }  # fmt: skip
    for name, warehouse in (("held", str(tmp_path)), ("away", "s3://lake")):
        told = {**of_catalog, "warehouse": warehouse}.items()
        session.call("describe", settings={f"spark.sql.catalog.{name}.{key}": value for key, value in told})
    refused = session.call("write", sink={"format": "iceberg", "table": "away.db.t"}, batches=[FIRST])["refused"]
    assert 's3://lake/db/t/data/tubemq cannot be written: No FileSystem for scheme "s3"' in refused
    assert "spark.hadoop.fs.SCHEME.impl" in refused
    sink = {"format": "iceberg", "table": "held.db.t"}
    assert session.call("write", sink=sink, batches=[FIRST, FIRST])["told"] == ONCE
    assert len(session.call("iceberg", table="held.db.t")) == 3
    options = {"user": postgres.user, "password": postgres.password, "driver": "org.postgresql.Driver"}
    held = "(SELECT pid FROM pg_stat_activity WHERE application_name = 'catalog') AS held"
    assert len(session.call("jdbc", url=postgres.url, table=held, options=options)) <= 1, "the last may still be ending"


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ({"format": "jdbc", "url": "jdbc:derby:/nowhere/at/all", "table": "x"}, "Database '/nowhere/at/all' not found"),
        ({"format": "jdbc", "url": "jdbc:postgresql://127.0.0.1:1/x", "table": "x"}, "127.0.0.1:1 refused"),
        ({"format": "jdbc", "url": "jdbc:h2:mem:x", "table": "x"}, "the JDBC driver org.h2.Driver is not in"),
        ({"format": "iceberg", "table": "none.db.t"}, "the Spark session has no Iceberg catalog none"),
        ({"format": "kafka", "topic": "x", "options": {"kafka.bootstrap.servers": "127.0.0.1:1"}}, "no Kafka broker"),
        ({"format": "parquet", "path": "/proc/none/x"}, "/proc/none/x cannot be written"),
        ({"format": "delta", "path": "/proc/version/x"}, "/proc/version/x` cannot be written"),
        ({"format": "delta", "path": "s3a://bucket/x"}, "sink out: java.lang.ClassNotFoundException: Class"),
        ({"format": "delta", "table": "nosuch.t"}, "The schema `spark_catalog`.`nosuch` cannot be found"),
    ],
)
def test_a_target_that_is_not_there_is_refused_by_the_check(
    session: SinkSession, sink: dict[str, Any], said: str
) -> None:
    refused = session.call("write", sink=sink, batches=[FIRST])["refused"]
    assert said in refused
    assert len(refused.splitlines()) == 2


def test_what_delta_would_refuse_of_each_batch_is_refused_by_the_check_and_nothing_stays(
    session: SinkSession, tmp_path: Path
) -> None:
    place = {"format": "delta", "path": str(tmp_path / "table")}

    def told(*select: str, **of_sink: Any) -> str:
        batch = {"id": 0, "rows": [[1, "a"]], "schema": "n TINYINT, t STRING", "select": ["*", *select]}
        return str(session.call("write", sink={**place, **of_sink}, batches=[batch]).get("refused", ""))

    assert "unsupported data types: [i: DayTime" in told("INTERVAL 1 DAY AS i")
    assert "nested NullType in column v" in told("array() AS v")
    of_map = "map('a', n) AS m"
    assert "for partition column" in told(of_map, partition_by=["m"])
    assert "is not orderable" in told(of_map, keys=["m"])
    assert "invalid character(s)" in told("n AS `a b`", path=None, table="in_catalog")
    assert not list(tmp_path.iterdir())
    assert session.call("query", select="SHOW TABLES LIKE 'in_catalog|_tubemq*'") == []

    assert not told(partition_by=["T"])
    refused = told(partition_by=["n"])
    assert "partition_by is n, but the existing table is partitioned by t" in refused
    float_of_tinyint = {"id": 1, "rows": [[0.5, "a"]], "schema": "n FLOAT, t STRING"}
    told_of_type = session.call("write", sink={**place, "on_schema_change": "widen"}, batches=[float_of_tinyint])
    assert "column n from TINYINT to FLOAT" in told_of_type["refused"]
    assert not [entry for entry in (tmp_path / "table").iterdir() if "probe" in entry.name]


def test_the_driver_s_part_of_jdbc_has_the_options_of_the_file_and_looks_in_its_own_schema(
    session: SinkSession, postgres: Postgres
) -> None:
    options = {"user": postgres.user, "password": postgres.password, "driver": "org.postgresql.Driver"}
    run = partial(session.call, "run_sql", url=postgres.url, options=options)
    run(statements=["CREATE SCHEMA other", "CREATE TABLE tubemq_batches_old (n INT)"])
    in_other = {**options, "currentSchema": "other"}
    for named in (options, in_other):  # the second finds a table of batches in the schema of the first
        sink = {"format": "jdbc", "url": postgres.url, "table": "in_schemas", "options": named}
        assert session.call("write", sink=sink, batches=[FIRST, FIRST], pipeline_id="s-0123456789ad")["told"] == ONCE
    for table in ("in_schemas", "other.in_schemas"):
        assert len(session.call("jdbc", url=postgres.url, table=table, options=options)) == 3
    refused = run(statements=["SELECT pg_sleep(100)"], query_timeout_s=1)
    assert "refused: ERROR: canceling statement" in refused
    assert "options.queryTimeout" in refused


def test_a_data_column_that_parquet_s_directories_would_hide_is_refused(session: SinkSession, tmp_path: Path) -> None:
    sink = {"format": "parquet", "path": str(tmp_path / "t")}
    rows = {"id": 0, "rows": [[1, "a"]], "schema": "n INT, batch STRING"}
    refused = session.call("write", sink=sink, batches=[rows])["refused"]
    assert "in place of the column batch" in refused
    assert not (tmp_path / "t").exists()


def test_kafka_gets_each_row_as_json_with_its_key_or_as_it_is(session: SinkSession, tmp_path: Path) -> None:
    with KafkaNode(tmp_path / "kafka") as kafka:
        options = {"kafka.bootstrap.servers": kafka.servers}
        sink = {"format": "kafka", "topic": "rows", "keys": ["n"], "options": options}
        told = session.call("write", sink=sink, batches=[FIRST])["told"]
        assert told == [{"before": None, "written": 3, "after": None}]
        found = session.call("kafka", servers=kafka.servers, topic="rows")
        assert [(key, json.loads(value)) for key, value in found] == [(str(n), {"n": n, "t": t}) for n, t in ROWS]
        as_is = {"id": 0, "rows": [["k", "v"]], "schema": "key STRING, value STRING"}
        session.call("write", sink={"format": "kafka", "topic": "raw", "options": options}, batches=[as_is])
        assert session.call("kafka", servers=kafka.servers, topic="raw") == [["k", "v"]]
        data = {
            "id": 0,
            "rows": [[7, "k", None], [8, None, "h"]],
            "schema": "partition INT, key STRING, headers STRING",
            "select": ["*", "TIMESTAMP '2026-11-22 01:02:03.123456Z' AS at"],
        }
        sink = {"format": "kafka", "topic": "data", "keys": ["key", "headers"], "options": options}
        session.call("write", sink=sink, batches=[data])
        at = '"at":"2026-11-22T01:02:03.123456Z"'
        assert session.call("kafka", servers=kafka.servers, topic="data") == [
            ['{"key":"k","headers":null}', f'{{"partition":7,"key":"k","headers":null,{at}}}'],
            ['{"key":null,"headers":"h"}', f'{{"partition":8,"key":null,"headers":"h",{at}}}'],
        ]


def test_a_topic_has_each_row_once_as_json_however_its_batch_was_made(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    writer = make_sink(Sink("out", "tubemq", master=topic.master, topic=topic.name))
    rows = spark.createDataFrame(
        [(n, str(n), f"k{n}", 77, AT, AT.replace(tzinfo=None)) for n in range(200)],
        "n INT, t STRING, key STRING, partition INT, at TIMESTAMP, local TIMESTAMP_NTZ",
    )
    context = SinkContext(spark, "p-1", checkpoint=str(tmp_path / "checkpoint"))
    writer.check(spark, rows.schema)
    kept = rows.coalesce(1).where("n >= 0")
    batches = [
        (kept.localCheckpoint(), kept.localCheckpoint()),
        (rows.repartition(3), rows.repartition(5).orderBy("t")),
        (rows.join(rows.select("n"), "n"), rows.select("n").join(rows.repartition(2), "n").select(*rows.columns)),
    ]
    for batch_id, (first, again) in enumerate(batches):
        assert [writer.write(first, batch_id, context), writer.write(again, batch_id, context)] == [200, 200]
    of_state = SinkContext(spark, "p-1", map_only=False)
    assert [writer.write(rows.repartition(n), 3, of_state) for n in (1, 2)] == [200, 200]
    found = spark.read.format("tubemq").options(**topic.options).load().collect()
    bodies = [json.loads(bytes(row.body)) for row in found]
    assert sorted(body["n"] for body in bodies) == sorted(4 * list(range(200)))
    assert bodies[0].keys() == set(rows.columns)
    decoder = make_decoder("json", schema="at TIMESTAMP, local TIMESTAMP_NTZ")
    times = decoder.decode(pa.record_batch({"body": [bytes(found[0].body)]})).rows
    assert times.to_pylist() == [{"at": AT, "local": AT.replace(tzinfo=None)}]
    places = {(json.loads(bytes(row.body))["key"], row.partition) for row in found}
    assert len(places) == 200, "a key is in two partitions"
    assert topic.name in (tmp_path / "checkpoint" / "tubemq-sink.json").read_text()
    odd = rows.withColumnRenamed("t", "a`b").limit(1)
    assert writer.write(odd.repartition(2), 4, context) == 1
    with pytest.raises(ConfigError, match="random numbers"):
        writer.write(rows.selectExpr("n", "rand() AS x"), 4, context)
    with pytest.raises(ConfigError, match="random numbers"):
        writer.write(rows, 4, SinkContext(spark, "p-1", map_only=False, deterministic=False))


def test_a_topic_that_is_not_there_is_refused_by_the_check(spark: SparkSession, topic: Topic) -> None:
    writer = make_sink(Sink("out", "tubemq", master=topic.master, topic="no_such_topic"))
    with pytest.raises(ConfigError, match=r"sink out: .*no_such_topic"):
        writer.check(spark, None)


def test_the_console_prints_the_first_rows(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    rows = spark.createDataFrame([(n, AT) for n in range(5)], "n INT, `a``b` TIMESTAMP")
    writer = make_sink(Sink("out", "console", options={"rows": "1"}))
    assert writer.write(rows, 7, SinkContext(spark, "p")) == 5
    assert capsys.readouterr().out == '{"n":0,"a`b":"2026-11-22T01:02:03.123456Z"}\n... and 4 more rows of batch 7\n'


def test_without_its_jars_a_sink_says_which_package_to_add(spark: SparkSession) -> None:
    for sink in (
        Sink("out", "delta", path="/tmp/x"),
        Sink("out", "kafka", topic="x", options={"kafka.bootstrap.servers": "x:1"}),
    ):
        with pytest.raises(ConfigError, match=r"sink out: the Spark session has no .*\n.*packages: \["):
            make_sink(sink).check(spark, None)


def test_pyarrow_reads_what_the_parquet_sink_wrote(session: SinkSession, tmp_path: Path) -> None:
    from pyarrow import dataset

    sink = {"format": "parquet", "path": str(tmp_path / "t"), "partition_by": ["t"]}
    session.call("write", sink=sink, batches=[FIRST])
    table = dataset.dataset(str(tmp_path / "t"), format="parquet", partitioning="hive").to_table()
    assert sorted(table.column("n").to_pylist()) == [1, 2, 3]
    assert Path(tmp_path / "t" / "_schema.json").exists()
