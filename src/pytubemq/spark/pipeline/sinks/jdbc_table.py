"""The columns of a table behind JDBC, by Spark's own mapping of types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.run.faults import said
from pytubemq.spark.pipeline.sinks import sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.spark.pipeline.sinks.columns import Change
    from pytubemq.spark.pipeline.sinks.jdbc_database import Database

_DERBY_TEXT: Final = "VARCHAR(32672)"
_DERBY_KEY: Final = "VARCHAR(250)"
_NO_TABLE: Final = ("42X05", "42P01", "42S02", "does not exist", "not found", "ORA-00942")


def table_columns(spark: SparkSession, url: str, table: str, options: Mapping[str, str]) -> StructType | None:
    """The table's columns as Spark sees them; None if there is no such table."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return spark.read.jdbc(url, table, properties=dict(options)).schema
    except (Py4JJavaError, PySparkException) as error:
        text = str(error)
        if any(sign in text for sign in _NO_TABLE):
            return None
        raise ConfigError(f"the table {table} cannot be read: {said(error)}") from error


def create_table(
    spark: SparkSession,
    database: Database,
    schema: StructType,
    url: str,
    table: str,
    options: Mapping[str, str],
    *,
    keys: Sequence[str],
) -> None:
    """Make the table, empty, with a unique index on the keys."""
    properties = dict(options)
    if database.is_derby and not any(name.lower() == "createtablecolumntypes" for name in properties):
        texts = [field.name for field in schema if field.dataType.simpleString() == "string"]
        kinds = [f"{sql.quoted(name)} {_DERBY_KEY if name in keys else _DERBY_TEXT}" for name in texts]
        if kinds:
            properties["createTableColumnTypes"] = ", ".join(kinds)
    empty = spark.createDataFrame([], schema)
    empty.write.jdbc(url, table, mode="append", properties=properties)
    if keys:
        index = f"{table.replace('.', '_').replace(chr(34), '')}_key"
        with database.connected() as connection:
            key_list = sql.column_list(keys, database.mark)
            connection.run(f"CREATE UNIQUE INDEX {index} ON {table} ({key_list})")
            connection.commit()


def add_columns(spark: SparkSession, database: Database, url: str, table: str, change: Change, *, sink: str) -> None:
    """Give the table the columns and types that it lacks.

    Raises:
        ConfigError: the database cannot change a column's type.
    """
    if change.is_none:
        return
    if change.widened and not database.is_postgres:
        names = ", ".join(field.name for field in change.widened)
        raise ConfigError(
            f"sink {sink}: the columns {names} need a wider type, which the runner changes in PostgreSQL only",
            hint="change the table by hand, or cast in a step",
        )
    with database.connected() as connection:
        for field in change.added:
            kind = _kind(spark, url, type(change.columns)([field]))
            connection.run(f"ALTER TABLE {table} ADD COLUMN {kind}")
        for field in change.widened:
            kind = _kind(spark, url, type(change.columns)([field]))
            bare = kind.removeprefix(database.quoted(field.name)).strip()
            connection.run(f"ALTER TABLE {table} ALTER COLUMN {database.quoted(field.name)} TYPE {bare}")
        connection.commit()


def _kind(spark: SparkSession, url: str, schema: StructType) -> str:
    """One column as the database's CREATE TABLE takes it."""
    jvm: Any = spark.sparkContext._jvm
    parsed = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    package = jvm.org.apache.spark.sql
    dialect = package.jdbc.JdbcDialects.get(url)
    text = str(
        package.execution.datasources.jdbc.JdbcUtils.schemaString(dialect, parsed, False, jvm.scala.Option.empty())
    )
    return text.removesuffix(" NOT NULL").strip()
