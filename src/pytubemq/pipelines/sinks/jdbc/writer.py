"""A table of a database: executors fill a staging table, the driver moves its rows in one transaction.

The invariant: the rows of a batch and its number, in the table `tubemq_batches`, are committed together; a batch whose
number stands there, or a higher one, is not moved again. Staging tables have a new name for each try, so that a task
that was given up writes where nobody looks.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines import sql
from pytubemq.pipelines.analysis.guarantees import promise_of
from pytubemq.pipelines.failpoints import reach
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.sinks.columns import fitted, lacking, no_column, reconcile, spelled
from pytubemq.pipelines.sinks.jdbc.database import Database
from pytubemq.pipelines.sinks.jdbc.options import jdbc_options, query_timeout_s
from pytubemq.pipelines.sinks.jdbc.table import (
    add_columns,
    create_table,
    table_columns,
    without_types,
)
from pytubemq.pipelines.sinks.jdbc.trial import refuse_move, refuse_types
from pytubemq.pipelines.sinks.rows import write_counted
from pytubemq.pipelines.sinks.sink_writer import batch_label
from pytubemq.pipelines.sinks.upsert import last_of_each_key
from pytubemq.pipelines.spark_faults import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.sinks.jdbc.database import Connection
    from pytubemq.pipelines.sinks.sink_writer import SinkContext, SinkWriter

BATCHES: Final = "tubemq_batches"
STAGE: Final = "tubemq_stage"
DERBY_TEXT: Final = 32_672
"""The longest text that a column of Derby takes, but for a CLOB."""
_ZERO: Final = "\0"
_ZERO_REPLACED: Final = "\ufffd"
TRIES: Final = 3
"""How often a batch is staged anew when a task that ran twice left rows twice."""


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of a sink."""
    return JdbcSink(spec)


class JdbcSink:
    """The sink `jdbc`."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self.guarantee = promise_of(spec).guarantee
        self._url = resolve(spec.url or "")
        self._table = resolve(spec.table or "")
        given = {key: resolve(value) for key, value in spec.options.items()}
        self._options = jdbc_options(self._url, given, sink=spec.name)
        self._query_timeout_s = query_timeout_s(given, sink=spec.name)

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """See that the database answers, that the rows fit the table, and that a batch can be moved there."""
        database = self._database(spark)
        try:
            with database.connected() as connection:
                connection.has_table(BATCHES)
        except PipelineError as error:
            raise ConfigError(
                f"sink {self.spec.name}: {error.message}",
                hint="check that the database runs, and that url, user and password are right",
            ) from error
        table = table_columns(spark, self._url, self._table, self._options, rows=schema)
        if schema is None:
            return
        keys = spelled(self.spec.keys, schema.names)
        try:
            if table is None:
                refuse_types(spark, database, schema, self._url, self._options, keys=keys, sink=self.spec.name)
            else:
                self._check_table(spark, database, schema, table)
        except PipelineError as error:
            raise ConfigError(
                f"sink {self.spec.name}: {error.message}",
                hint=error.hint or "check that the account may create tables there",
            ) from error

    def _check_table(self, spark: SparkSession, database: Database, rows: StructType, table: StructType) -> None:
        added = reconcile(rows, table, self.spec.on_schema_change, sink=self.spec.name).added
        keys = self._keys_of_table(table)
        if added:
            options = without_types(self._options)
            refuse_types(spark, database, type(rows)([*added]), self._url, options, keys=(), sink=self.spec.name)
        refuse_move(spark, database, table, self._url, self._table, rows=rows, keys=keys)

    def _keys_of_table(self, table: StructType) -> list[str]:
        """Return the columns of `keys` as the table spells them."""
        for name in lacking(self.spec.keys, table.names):
            message, hint = no_column(name, table.names, holder="the table lacks")
            raise ConfigError(f"sink {self.spec.name}: keys: {message}", hint=hint)
        return spelled(self.spec.keys, table.names)

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Stage the rows, then move them and the batch's number in one transaction."""
        database = self._database(context.spark)
        rows = self._fitted(rows, context.spark, database)
        if database.is_postgres:
            rows = _without_zeros(rows)
        if self.spec.keys:
            rows = last_of_each_key(rows, self.spec.keys)
        self._prepare(database, context)
        for _ in range(TRIES):
            stage = f"{self._stage_prefix(context)}{batch_id}_{uuid.uuid4().hex[:6]}"
            staged = self._stage(rows, stage, database)
            with database.connected() as connection:
                moved = self._move(connection, database, stage, staged, rows.schema)
                kept = moved and self._number(connection, context, batch_id, staged)
                if kept:
                    reach(f"sink-staged:{self.spec.name}", batch_id)
                    connection.commit()
                else:
                    connection.rollback()
                before = self._numbered(connection, batch_id, context)
                self._sweep(connection, context)
            if before is not None:
                return before
        raise PipelineError(
            f"sink {self.spec.name}: batch {batch_id} was staged {TRIES} times, each time with a task's rows twice",
            hint="find out why Spark repeats its tasks: executors that die, or speculation",
        )

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return the rows of the batch, if the database has its number."""
        with self._database(context.spark).connected() as connection:
            if not connection.has_table(BATCHES):
                return None
            return self._numbered(connection, batch_id, context)

    def _stage(self, rows: DataFrame, stage: str, database: Database) -> int:
        if not database.is_derby:
            with database.connected() as connection:
                connection.run(database.like(stage, self._table, rows.columns))
                connection.commit()
        properties = without_types(self._options)
        return write_counted(
            rows, lambda counted: counted.write.jdbc(self._url, stage, mode="append", properties=properties)
        )

    def _move(self, connection: Connection, database: Database, stage: str, staged: int, schema: StructType) -> bool:
        """Move the staged rows; False if there are not just those that the tasks counted."""
        there = connection.rows(f"SELECT COUNT(*) FROM {stage}")[0][0]
        if int(there) != staged:
            return False
        columns = schema.names
        if database.is_derby:
            stage = self._typed(connection, database, stage, schema)
        keys = spelled(self.spec.keys, columns)
        moved = [connection.run(statement) for statement in database.move(self._table, stage, keys, columns)]
        return bool(keys) or moved == [staged]

    def _typed(self, connection: Connection, database: Database, stage: str, schema: StructType) -> str:
        """Copy staged rows to a table of the target's types: Spark sends Derby text as CLOB, which is not taken."""
        texts = {field.name for field in schema if field.dataType.simpleString() == "string"}
        for name in texts:
            long = f"SELECT COUNT(*) FROM {stage} WHERE LENGTH({database.quoted(name)}) > {DERBY_TEXT}"
            if int(connection.rows(long)[0][0]):
                raise PipelineError(
                    f"sink {self.spec.name}: column {name} has texts of more than {DERBY_TEXT} characters",
                    hint="shorten them in a step: Derby does not accept longer ones",
                )
        typed = f"{stage}_t"
        connection.run(database.like(typed, self._table, schema.names))
        values = ", ".join(
            f"CAST({database.quoted(name)} AS VARCHAR({DERBY_TEXT}))" if name in texts else database.quoted(name)
            for name in schema.names
        )
        names = sql.column_list(schema.names, database.mark)
        connection.run(f"INSERT INTO {typed} ({names}) SELECT {values} FROM {stage}")
        return typed

    def _number(self, connection: Connection, context: SinkContext, batch_id: int, rows: int) -> bool:
        """Write the batch's number down; False if it, or a higher one, stands there."""
        updated = connection.run(
            f"UPDATE {BATCHES} SET batch_id = ?, row_count = ? WHERE pipeline = ? AND sink = ? AND batch_id < ?",
            batch_id, rows, context.pipeline_id, self.spec.name, batch_id,
        )  # fmt: skip
        if updated:
            return True
        if self._numbered(connection, batch_id, context) is not None:
            return False
        connection.run(
            f"INSERT INTO {BATCHES} (pipeline, sink, batch_id, row_count) VALUES (?, ?, ?, ?)",
            context.pipeline_id, self.spec.name, batch_id, rows,
        )  # fmt: skip
        return True

    def _numbered(self, connection: Connection, batch_id: int, context: SinkContext) -> int | None:
        found = connection.rows(
            f"SELECT batch_id, row_count FROM {BATCHES} WHERE pipeline = ? AND sink = ? AND batch_id >= ?",
            context.pipeline_id, self.spec.name, batch_id, columns=2,
        )  # fmt: skip
        if not found:
            return None
        return int(found[0][1]) if int(found[0][0]) == batch_id else 0

    def _prepare(self, database: Database, context: SinkContext) -> None:
        """Make the table of batch numbers, and drop what runs that were killed left staged."""
        with database.connected() as connection:
            if not connection.has_table(BATCHES):
                connection.run(
                    f"CREATE TABLE {BATCHES} (pipeline VARCHAR(250) NOT NULL, sink VARCHAR(250) NOT NULL, "
                    "batch_id BIGINT NOT NULL, row_count BIGINT NOT NULL, PRIMARY KEY (pipeline, sink))"
                )
            connection.commit()
            self._sweep(connection, context)

    def _sweep(self, connection: Connection, context: SinkContext) -> None:
        """Drop the staging tables."""
        for name in connection.tables(self._stage_prefix(context)):
            connection.run(f"DROP TABLE {name}")
        connection.commit()

    def _stage_prefix(self, context: SinkContext) -> str:
        safe = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in self.spec.name)[:8]
        own = hashlib.sha256(self.spec.name.encode()).hexdigest()[:8]
        return f"{STAGE}_{batch_label(context.pipeline_id)[:9]}_{safe}_{own}_".lower()

    def _fitted(self, rows: DataFrame, spark: SparkSession, database: Database) -> DataFrame:
        table = table_columns(spark, self._url, self._table, self._options, rows=rows.schema)
        if table is None:
            keys = spelled(self.spec.keys, rows.columns)
            create_table(database, rows.schema, self._table, self._options, keys=keys)
            table = table_columns(spark, self._url, self._table, self._options, rows=rows.schema) or rows.schema
        change = reconcile(rows.schema, table, self.spec.on_schema_change, sink=self.spec.name)
        add_columns(spark, database, self._url, self._table, change, sink=self.spec.name)
        return fitted(rows, change.columns, policy=self.spec.on_schema_change)

    def _database(self, spark: SparkSession) -> Database:
        return Database(spark.sparkContext._jvm, self._url, self._options, query_timeout_s=self._query_timeout_s)


def _without_zeros(rows: DataFrame) -> DataFrame:
    """Return the rows with U+FFFD in the place of each character 0, which PostgreSQL takes in no text."""
    from pyspark.sql import functions as f

    return rows.select(*(_clean_text(f.col(sql.quoted(one.name)), one.dataType).alias(one.name) for one in rows.schema))


def _clean_text(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, StringType

    if isinstance(kind, StringType):
        return f.translate(column, _ZERO, _ZERO_REPLACED)
    if isinstance(kind, ArrayType) and "string" in kind.simpleString():
        inner = kind.elementType
        return f.transform(column, lambda element: _clean_text(element, inner))
    return column
