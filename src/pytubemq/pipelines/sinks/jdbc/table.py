"""The columns of a table behind JDBC, by Spark's own mapping of types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines import sql
from pytubemq.pipelines.spark_faults import format_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType

    from pytubemq.pipelines.sinks.columns import Change
    from pytubemq.pipelines.sinks.jdbc.database import Connection, Database

_DERBY_TEXT: Final = "VARCHAR(32672)"
_DERBY_KEY: Final = "VARCHAR(250)"
TYPES: Final = "createTableColumnTypes"
_PREFER_LOCAL: Final = "preferTimestampNTZ"
_LOCAL: Final = "timestamp_ntz"
_NO_TABLE: Final = ("42X05", "42P01", "42S02", "does not exist", "not found", "ORA-00942")


def table_columns(
    spark: SparkSession, url: str, table: str, options: Mapping[str, str], *, rows: StructType | None = None
) -> StructType | None:
    """Return the table's columns as Spark sees them; None if there is no such table.

    Of a column without a time zone Spark says that it is a timestamp, as it says of one with a zone. Where `rows` have
    a timestamp_ntz for it, it is one here, too, so that the clock's time is written as it is.
    """
    there = _columns(spark, url, table, options)
    if there is None or rows is None or not any(field.dataType.simpleString() == _LOCAL for field in rows):
        return there
    others = {name: value for name, value in options.items() if name.lower() != _PREFER_LOCAL.lower()}
    local = _columns(spark, url, table, {**others, _PREFER_LOCAL: "true"})
    return there if local is None else with_local_times(there, local, rows)


def with_local_times(there: StructType, local: StructType, rows: StructType) -> StructType:
    """Replace the columns for which the rows have a time without a zone by those of `local`."""
    wanted = {field.name.lower() for field in rows if field.dataType.simpleString() == _LOCAL}
    pairs = zip(there, local, strict=True)
    return type(there)([other if field.name.lower() in wanted else field for field, other in pairs])


def _columns(spark: SparkSession, url: str, table: str, options: Mapping[str, str]) -> StructType | None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return spark.read.jdbc(url, table, properties=dict(options)).schema
    except (Py4JJavaError, PySparkException) as error:
        text = str(error)
        if any(sign in text for sign in _NO_TABLE):
            return None
        raise ConfigError(f"the table {table} cannot be read: {format_error(error)}") from error


def create_table(
    database: Database, schema: StructType, table: str, options: Mapping[str, str], *, keys: Sequence[str]
) -> None:
    """Make the table, empty, with a unique index on the keys: both, or, where DDL is part of transactions, none."""
    with database.connected() as connection:
        make_table(connection, database, schema, table, options, keys=keys)
        connection.commit()


def make_table(
    connection: Connection,
    database: Database,
    schema: StructType,
    table: str,
    options: Mapping[str, str],
    *,
    keys: Sequence[str],
) -> None:
    """Make a table and its index by a connection that has yet to commit."""
    database.create(connection, table, schema, _with_types(database, schema, options, keys))
    if keys:
        index = database.quoted(f"{table.replace('.', '_').replace(chr(34), '')}_key")
        connection.run(f"CREATE UNIQUE INDEX {index} ON {table} ({sql.column_list(keys, database.mark)})")


def without_types(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without types of columns, which are for a new table only."""
    return {name: value for name, value in options.items() if name.lower() != TYPES.lower()}


def _with_types(
    database: Database, schema: StructType, options: Mapping[str, str], keys: Sequence[str]
) -> dict[str, str]:
    """Add the types of Derby's texts to the options, unless they name types."""
    properties = dict(options)
    if database.is_derby and not any(name.lower() == TYPES.lower() for name in properties):
        texts = [field.name for field in schema if field.dataType.simpleString() == "string"]
        kinds = [f"{sql.quoted(name)} {_DERBY_KEY if name in keys else _DERBY_TEXT}" for name in texts]
        if kinds:
            properties[TYPES] = ", ".join(kinds)
    return properties


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
            kind = column_type(spark, database, url, field)
            connection.run(f"ALTER TABLE {table} ADD COLUMN {database.quoted(field.name)} {kind}")
        for field in change.widened:
            kind = column_type(spark, database, url, field)
            connection.run(f"ALTER TABLE {table} ALTER COLUMN {database.quoted(field.name)} TYPE {kind}")
        connection.commit()


def column_type(spark: SparkSession, database: Database, url: str, field: StructField) -> str:
    """Return the type of a column as the database's CREATE TABLE takes it."""
    from pyspark.sql.types import StructField, StructType

    jvm: Any = spark.sparkContext._jvm
    package = jvm.org.apache.spark.sql
    parsed = package.types.DataType.fromJson(StructType([StructField("c", field.dataType)]).json())
    utils = package.execution.datasources.jdbc.JdbcUtils
    dialect = package.jdbc.JdbcDialects.get(url)
    text = str(utils.schemaString(dialect, parsed, False, jvm.scala.Option.empty()))
    return text.removeprefix(database.quoted("c")).strip()
