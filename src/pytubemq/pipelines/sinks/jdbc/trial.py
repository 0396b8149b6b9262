"""Trial of a batch without rows, all undone: finds what a database would refuse of each batch, before the first one.

The invariant: what is tried is what a batch does, by the same statements; nothing that is made for it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.errors import ConfigError
from pytubemq.pipelines import sql
from pytubemq.pipelines.sinks.columns import holds
from pytubemq.pipelines.sinks.jdbc.table import TYPES, column_type, make_table, with_local_times
from pytubemq.pipelines.spark_faults import format_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType

    from pytubemq.pipelines.sinks.jdbc.database import Database


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
    """Refuse columns that a table, once made, would not keep as they are, and keys that it would have no index for.

    Raises:
        ConfigError: the database has no type for a column, or one that holds less.
        PipelineError: the database refused to make a table, or its index.
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
    with database.scratch() as (connection, name):
        try:
            make_table(connection, database, schema, name, options, keys=keys)
        except PySparkException as error:
            raise ConfigError(f"sink {sink}: {TYPES}: {format_error(error)}") from error
        kept = [connection.columns(f"SELECT * FROM {name}", utils, dialect, local=local) for local in (False, True)]
    check_kept(schema, with_local_times(kept[0], kept[1], schema), sink=sink)


def refuse_move(
    spark: SparkSession,
    database: Database,
    there: StructType,
    url: str,
    table: str,
    *,
    rows: StructType,
    keys: Sequence[str],
) -> None:
    """Refuse a table that a batch could not be moved to: by its keys, by its types, by what the account may do.

    `there` are the columns of the table, of which `rows` may lack some.

    Raises:
        PipelineError: the database refused a statement.
    """
    given = {field.name.lower() for field in rows}
    kinds = {
        field.name: column_type(spark, database, url, field)
        for field in there
        if field.name.lower() in given and field.dataType.simpleString() != "string"
    }
    with database.scratch() as (connection, name):
        connection.run(database.like(name, table, there.names))
        for statement in (*database.fill_with_none(name, kinds), *database.move(table, name, keys, there.names)):
            connection.run(statement)


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
            f"which the database would store as {there.dataType.simpleString()}",
            hint=f"cast it in a step: CAST({sql.quoted(field.name)} AS {fits.simpleString()})",
        )


def _no_type(sink: str, field: StructField) -> ConfigError:
    kind = field.dataType.simpleString()
    nested = kind.startswith(("map<", "struct<", "array<"))
    as_text = f"convert it to text in a step: to_json({sql.quoted(field.name)})"
    return ConfigError(
        f"sink {sink}: the database has no type for the column {field.name}, which is {kind}",
        hint=f"{as_text if nested else 'cast it in a step'}, or leave it out",
    )
