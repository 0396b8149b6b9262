"""A database through the driver's JVM: one connection, and what its SQL is like.

The invariant: a connection is made as Spark makes those of its tasks, so that jars given to the session are found and
what the file says of TLS, schema or login holds for it, too; statements take values as parameters, never inside of
their text.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines import sql
from pytubemq.pipelines.file.secrets import redact, without_secrets
from pytubemq.pipelines.spark_faults import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

_TOO_LONG: Final = "check what has a lock there; statements may take options.queryTimeout seconds (0: any time)"
_NO_FIT: Final = "a row does not fit the table: change it, or leave it out, in a step; the next run repeats the batch"
_HINTS: Final = {
    **dict.fromkeys(("57014", "XCL52", "40XL1", "HYT00", "70100", "57000"), _TOO_LONG),
    "42P10": "create a unique index on exactly the columns of keys, without a WHERE: CREATE UNIQUE INDEX ON "
    "table (columns)",
    "42804": "give the table a column of that type, or leave the column out in a step with on_schema_change: ignore",
    "42501": "let the account select, insert and, with keys, update in the table, and create tables in the same schema",
    "22": _NO_FIT,
    "23": _NO_FIT,
}
"""Remedies by the SQL state of a refusal, or by its class, which are the first two letters."""


class Database:
    """A database: connections to it, and the words of its SQL."""

    def __init__(self, jvm: Any, url: str, options: Mapping[str, str], *, query_timeout_s: int = 0) -> None:
        """Create it with the Spark session's `jvm`; `options` are Spark's and the driver's, by name."""
        self._jvm = jvm
        self._url = url
        self._options = options
        self._query_timeout_s = query_timeout_s
        self.is_postgres = url.startswith("jdbc:postgresql:")
        self.is_derby = url.startswith("jdbc:derby:")
        self.mark = "`" if url.startswith(("jdbc:mysql:", "jdbc:mariadb:")) else '"'

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Open a connection without autocommit; what was not committed is undone at the end.

        Raises:
            PipelineError: the database refused a statement, or was not reached.
        """
        from py4j.protocol import Py4JJavaError

        try:
            connection = Connection(self._connect(), self._query_timeout_s)
            try:
                yield connection
            finally:
                connection.close()
        except Py4JJavaError as error:
            raise self._refused(error.java_exception) from error

    @contextmanager
    def scratch(self) -> Iterator[tuple[Connection, str]]:
        """Open a connection, and name a table that it may make; all of it is undone at the end.

        Raises:
            PipelineError: as for `connected`.
        """
        name = f"tubemq_probe_{uuid.uuid4().hex[:12]}"
        with self.connected() as connection:
            try:
                yield connection, name
            finally:
                connection.rollback()
                for made in connection.tables(name):  # where DDL is not part of transactions
                    connection.run(f"DROP TABLE {made}")
                connection.commit()

    @property
    def shown(self) -> str:
        """The URL without what may be secret in it."""
        return redact("url", self._url).partition("?")[0].partition(";")[0]

    def _refused(self, why: Any) -> PipelineError:
        lines = [line.strip() for line in without_secrets(str(why.getMessage())).splitlines()]
        words = " ".join(line for line in lines if not line.startswith("Position: "))  # a place in our statement
        said = f"the database at {self.shown} refused: {words}"
        state = _sql_state(why) or ""
        return PipelineError(said, hint=_HINTS.get(state) or _HINTS.get(state[:2]))

    def _connect(self) -> Any:
        """Open a connection as Spark itself does: with all options that are not Spark's own."""
        from py4j.protocol import Py4JJavaError

        spark = self._jvm.org.apache.spark
        try:
            options = spark.sql.execution.datasources.jdbc.JDBCOptions(self._url, "none", self._as_scala(self._options))
            connection = spark.sql.jdbc.JdbcDialects.get(self._url).createConnectionFactory(options).apply(-1)
        except Py4JJavaError as error:
            kind = str(error.java_exception.getClass().getName())
            if kind == "java.lang.ClassNotFoundException":
                raise ConfigError(
                    f"the JDBC driver {self._driver} is not in the Spark session",
                    hint="add its jar to the pipeline's spark: jars: or packages:",
                ) from error
            if "could not open a JDBC connection" in str(error.java_exception.getMessage()):
                raise ConfigError(
                    f"the JDBC driver {self._driver} does not take the URL {self.shown}",
                    hint="name its class in option driver",
                ) from error
            raise
        connection.setAutoCommit(False)
        return connection

    def _as_scala(self, options: Mapping[str, str]) -> Any:
        names = self._jvm.java.util.HashMap()
        for key, value in options.items():
            names.put(key, value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(names)

    @property
    def _driver(self) -> str:
        return next((value for name, value in self._options.items() if name.lower() == "driver"), "none")

    def quoted(self, name: str) -> str:
        """Quote a name, exactly as it is."""
        return sql.quoted(name, self.mark)

    def create(self, connection: Connection, table: str, schema: StructType, options: Mapping[str, str]) -> None:
        """Make a table for rows of a schema as Spark does, but by a connection that has yet to commit."""
        package = self._jvm.org.apache.spark.sql
        jdbc = package.execution.datasources.jdbc
        parsed = package.types.DataType.fromJson(schema.json())
        to = jdbc.JdbcOptionsInWrite(self._url, table, self._as_scala(options))
        jdbc.JdbcUtils.createTable(connection.java, table, parsed, False, to)

    def move(self, target: str, source: str, keys: Sequence[str], columns: Sequence[str]) -> list[str]:
        """Build the statements that put the rows of `source` into `target`, by key if there are keys."""
        names = sql.column_list(columns, self.mark)
        insert = f"INSERT INTO {target} ({names}) SELECT {names} FROM {source}"
        if not keys:
            return [insert]
        if self.is_postgres:
            taken = {key.lower() for key in keys}
            rest = [self.quoted(name) for name in columns if name.lower() not in taken]
            update = ", ".join(f"{name} = EXCLUDED.{name}" for name in rest)
            action = f"DO UPDATE SET {update}" if rest else "DO NOTHING"
            key_list = sql.column_list(keys, self.mark)
            return [f"{insert} ON CONFLICT ({key_list}) {action}"]
        if self.is_derby:
            return [sql.merge(target, source, keys, columns, self.mark)]
        same = " AND ".join(f"{target}.{self.quoted(key)} = s.{self.quoted(key)}" for key in keys)
        return [
            f"DELETE FROM {target} WHERE EXISTS (SELECT 1 FROM {source} s WHERE {same})",
            insert,
        ]

    def fill_with_none(self, table: str, kinds: Mapping[str, str]) -> list[str]:
        """Build the statements that put no rows into a table, with values of these types.

        PostgreSQL refuses them as it would Spark's: it takes no boolean for a bit. Elsewhere there are none.
        """
        if not self.is_postgres or not kinds:
            return []
        values = ", ".join(f"CAST(NULL AS {kind})" for kind in kinds.values())
        return [f"INSERT INTO {table} ({sql.column_list(kinds, self.mark)}) SELECT {values} WHERE FALSE"]

    def like(self, name: str, target: str, columns: Sequence[str]) -> str:
        """Build the statement that makes an empty table with some columns of another."""
        names = sql.column_list(columns, self.mark)
        if self.is_postgres:
            return f"CREATE UNLOGGED TABLE {name} AS SELECT {names} FROM {target} WITH NO DATA"
        if self.is_derby:
            return f"CREATE TABLE {name} AS SELECT {names} FROM {target} WITH NO DATA"
        return f"CREATE TABLE {name} AS SELECT {names} FROM {target} WHERE 1 = 0"


class Connection:
    """One connection; `commit` keeps what was done, else it is undone."""

    def __init__(self, java: Any, query_timeout_s: int = 0) -> None:
        """Wrap `java`, the connection in the JVM."""
        self.java = java
        self._query_timeout_s = query_timeout_s

    def run(self, statement: str, *values: str | int) -> int:
        """Carry a statement out; returns how many rows it changed."""
        prepared = self._prepared(statement, values)
        try:
            return int(prepared.executeUpdate())
        finally:
            prepared.close()

    def rows(self, statement: str, *values: str | int, columns: int = 1) -> list[tuple[Any, ...]]:
        """Return the rows of a query: numbers and texts."""
        prepared = self._prepared(statement, values)
        try:
            found = prepared.executeQuery()
            rows = []
            while found.next():
                rows.append(tuple(found.getObject(at + 1) for at in range(columns)))
            return rows
        finally:
            prepared.close()

    def columns(self, query: str, utils: Any, dialect: Any, *, local: bool) -> StructType:
        """Return the columns of a query as Spark sees them; `local`: times without a zone have a type of their own."""
        from pyspark.sql.types import CharType, StringType, StructField, StructType, VarcharType

        prepared = self._prepared(query, ())
        try:
            found = utils.getSchema(self.java, prepared.executeQuery(), dialect, True, local)
        finally:
            prepared.close()
        fields = StructType.fromJson(json.loads(found.json()))
        text = (CharType, VarcharType)
        return StructType(
            [StructField(f.name, StringType() if isinstance(f.dataType, text) else f.dataType) for f in fields]
        )

    def has_table(self, name: str) -> bool:
        """True if there is a table of that name, in upper or lower case, where names without a schema are looked up."""
        return any(found.lower() == name.lower() for found in self._tables(name))

    def tables(self, beginning: str) -> list[str]:
        """List tables whose names begin so, in upper or lower case, where names without a schema are looked up."""
        return [name for name in self._tables(f"{beginning}%") if name.lower().startswith(beginning.lower())]

    def _tables(self, pattern: str) -> list[str]:
        """List tables by a pattern in which `_` is any letter, so there may be more than were asked for."""
        facts = self.java.getMetaData()
        if facts.storesUpperCaseIdentifiers():
            pattern = pattern.upper()
        schema = self.java.getSchema()
        names = []
        found = facts.getTables(self.java.getCatalog(), schema, pattern, None)
        try:
            while found.next():
                if schema is None or str(found.getString("TABLE_SCHEM")) == str(schema):
                    names.append(str(found.getString("TABLE_NAME")))
        finally:
            found.close()
        return names

    def commit(self) -> None:
        """Keep what was done since the last commit."""
        self.java.commit()

    def rollback(self) -> None:
        """Undo what was done since the last commit."""
        self.java.rollback()

    def close(self) -> None:
        """Undo what was not committed, and end."""
        if not self.java.isClosed():
            self.java.rollback()
            self.java.close()

    def _prepared(self, statement: str, values: Sequence[str | int]) -> Any:
        prepared = self.java.prepareStatement(statement)
        prepared.setQueryTimeout(self._query_timeout_s)
        for at, value in enumerate(values, 1):
            if isinstance(value, str):
                prepared.setString(at, value)
            else:
                prepared.setLong(at, value)
        return prepared


def _sql_state(error: Any) -> str | None:
    """Return the SQL state of a database's exception; others have none."""
    from py4j.protocol import Py4JError

    try:
        return str(error.getSQLState())
    except Py4JError:
        return None
