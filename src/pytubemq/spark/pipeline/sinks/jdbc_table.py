"""The columns of a table behind JDBC, by Spark's own mapping of types."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.run.faults import said
from pytubemq.spark.pipeline.sinks import sql
from pytubemq.spark.pipeline.sinks.columns import holds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType

    from pytubemq.spark.pipeline.sinks.columns import Change
    from pytubemq.spark.pipeline.sinks.jdbc_database import Database

_DERBY_TEXT: Final = "VARCHAR(32672)"
_DERBY_KEY: Final = "VARCHAR(250)"
_TYPES: Final = "createTableColumnTypes"
_PREFER_LOCAL: Final = "preferTimestampNTZ"
_LOCAL: Final = "timestamp_ntz"
_NO_TABLE: Final = ("42X05", "42P01", "42S02", "does not exist", "not found", "ORA-00942")


def table_columns(
    spark: SparkSession, url: str, table: str, options: Mapping[str, str], *, rows: StructType | None = None
) -> StructType | None:
    """The table's columns as Spark sees them; None if there is no such table.

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
    """The columns of `there`, but of `local` those for which the rows have a time without a zone."""
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
    properties = _with_types(database, schema, options, keys)
    empty = spark.createDataFrame([], schema)
    empty.write.jdbc(url, table, mode="append", properties=properties)
    if keys:
        index = f"{table.replace('.', '_').replace(chr(34), '')}_key"
        with database.connected() as connection:
            key_list = sql.column_list(keys, database.mark)
            connection.run(f"CREATE UNIQUE INDEX {index} ON {table} ({key_list})")
            connection.commit()


def refuse_types(
    spark: SparkSession,
    database: Database,
    schema: StructType,
    url: str,
    options: Mapping[str, str],
    *,
    keys: Sequence[str],
    sink: str,
) -> None:
    """Refuse columns that a table, once made, would not keep as they are. What is made to see it is undone.

    Raises:
        ConfigError: the database has no type for a column, or one that holds less.
        PipelineError: the database refused to make a table.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    jvm: Any = spark.sparkContext._jvm
    package = jvm.org.apache.spark.sql
    utils = package.execution.datasources.jdbc.JdbcUtils
    dialect = package.jdbc.JdbcDialects.get(url)
    for field in schema:
        try:
            utils.getJdbcType(package.types.DataType.fromJson(field.dataType.json()), dialect)
        except (Py4JJavaError, PySparkException) as error:
            raise _no_type(sink, field) from error
    types = {name.lower(): value for name, value in _with_types(database, schema, options, keys).items()}
    parsed = package.types.DataType.fromJson(schema.json())
    try:
        columns = utils.schemaString(dialect, parsed, False, jvm.scala.Option.apply(types.get(_TYPES.lower())))
    except (Py4JJavaError, PySparkException) as error:
        raise ConfigError(f"sink {sink}: {_TYPES}: {said(error)}") from error
    name = f"tubemq_probe_{uuid.uuid4().hex[:12]}"
    with database.connected() as connection:
        connection.run(f"CREATE TABLE {name} ({columns})")
        kept = [connection.columns(f"SELECT * FROM {name}", utils, dialect, local=local) for local in (False, True)]
        connection.run(f"DROP TABLE {name}")
    check_kept(schema, with_local_times(kept[0], kept[1], schema), sink=sink)


def check_kept(rows: StructType, kept: StructType, *, sink: str) -> None:
    """Compare columns with what a new table makes of them, one by one.

    Raises:
        ConfigError: it keeps less of one.
    """
    from pyspark.sql.types import DecimalType

    for field, there in zip(rows, kept, strict=True):
        if holds(there.dataType, field.dataType):
            continue
        fits = there.dataType
        if isinstance(fits, DecimalType) and isinstance(field.dataType, DecimalType):
            fits = DecimalType(fits.precision, min(fits.precision, field.dataType.scale))
        raise ConfigError(
            f"sink {sink}: column {field.name} is {field.dataType.simpleString()}, "
            f"which the database would keep as {there.dataType.simpleString()}",
            hint=f"cast it in a step: CAST({sql.quoted(field.name)} AS {fits.simpleString()})",
        )


def _no_type(sink: str, field: StructField) -> ConfigError:
    kind = field.dataType.simpleString()
    nested = kind.startswith(("map<", "struct<", "array<"))
    as_text = f"make a text of it in a step: to_json({sql.quoted(field.name)})"
    return ConfigError(
        f"sink {sink}: the database has no type for the column {field.name}, which is {kind}",
        hint=f"{as_text if nested else 'cast it in a step'}, or leave it out",
    )


def without_types(options: Mapping[str, str]) -> dict[str, str]:
    """The options without types of columns, which are those of a new table's."""
    return {name: value for name, value in options.items() if name.lower() != _TYPES.lower()}


def _with_types(
    database: Database, schema: StructType, options: Mapping[str, str], keys: Sequence[str]
) -> dict[str, str]:
    """The options, with the types of Derby's texts, unless they name types."""
    properties = dict(options)
    if database.is_derby and not any(name.lower() == _TYPES.lower() for name in properties):
        texts = [field.name for field in schema if field.dataType.simpleString() == "string"]
        kinds = [f"{sql.quoted(name)} {_DERBY_KEY if name in keys else _DERBY_TEXT}" for name in texts]
        if kinds:
            properties[_TYPES] = ", ".join(kinds)
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
