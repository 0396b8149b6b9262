"""A database through the driver's JVM: one connection, and what its SQL is like.

The invariant: a driver's class is loaded as Spark loads it, so that jars given to the session are found; statements
take values as parameters, never inside of their text.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.run.faults import PipelineError
from pytubemq.spark.pipeline.sinks import sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

DRIVERS: Final = {
    "jdbc:postgresql:": "org.postgresql.Driver",
    "jdbc:derby:": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    "jdbc:mysql:": "com.mysql.cj.jdbc.Driver",
    "jdbc:mariadb:": "org.mariadb.jdbc.Driver",
    "jdbc:sqlserver:": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "jdbc:oracle:": "oracle.jdbc.OracleDriver",
    "jdbc:h2:": "org.h2.Driver",
}


def driver_class(url: str, options: Mapping[str, str]) -> str | None:
    """The class of the driver for a URL."""
    if "driver" in options:
        return options["driver"]
    return next((name for start, name in DRIVERS.items() if url.startswith(start)), None)


class Database:
    """How to reach a database, and the words of its SQL."""

    def __init__(self, spark: SparkSession, url: str, driver: str, properties: Mapping[str, str]) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._url = url
        self._driver = driver
        self._properties = properties
        self.is_postgres = url.startswith("jdbc:postgresql:")
        self.is_derby = url.startswith("jdbc:derby:")
        self.mark = "`" if url.startswith(("jdbc:mysql:", "jdbc:mariadb:")) else '"'

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """A connection without autocommit; what was not committed is undone at the end.

        Raises:
            PipelineError: the database refused a statement, or was not reached.
        """
        from py4j.protocol import Py4JJavaError

        try:
            connection = Connection(self._connect())
            try:
                yield connection
            finally:
                connection.close()
        except Py4JJavaError as error:
            raise PipelineError(f"the database at {self.shown} refused: {error.java_exception.getMessage()}") from error

    @property
    def shown(self) -> str:
        """The URL without what may be secret in it."""
        return self._url.partition("?")[0].partition(";")[0]

    def _connect(self) -> Any:
        from py4j.protocol import Py4JJavaError

        loader = self._jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        try:
            driver = loader.loadClass(self._driver).getDeclaredConstructor(
                self._array(self._jvm.java.lang.Class, 0)
            ).newInstance(self._array(self._jvm.java.lang.Object, 0))  # fmt: skip
        except Py4JJavaError as error:
            raise ConfigError(
                f"the JDBC driver {self._driver} is not in the Spark session",
                hint="add its jar to the pipeline's spark: jars: or packages:",
            ) from error
        properties = self._jvm.java.util.Properties()
        for key, value in self._properties.items():
            properties.setProperty(key, value)
        connection = driver.connect(self._url, properties)
        if connection is None:
            raise ConfigError(
                f"the JDBC driver {self._driver} does not take the URL {self.shown}",
                hint="name its class in option driver",
            )
        connection.setAutoCommit(False)
        return connection

    def _array(self, kind: Any, size: int) -> Any:
        from pyspark import SparkContext

        gateway: Any = SparkContext._gateway
        return gateway.new_array(kind, size)

    def quoted(self, name: str) -> str:
        """A name, exactly as it is."""
        return sql.quoted(name, self.mark)

    def upsert(self, target: str, source: str, keys: Sequence[str], columns: Sequence[str]) -> list[str]:
        """Statements that put the rows of `source` into `target` by key."""
        names = sql.column_list(columns, self.mark)
        if self.is_postgres:
            taken = {key.lower() for key in keys}
            rest = [self.quoted(name) for name in columns if name.lower() not in taken]
            update = ", ".join(f"{name} = EXCLUDED.{name}" for name in rest)
            action = f"DO UPDATE SET {update}" if rest else "DO NOTHING"
            key_list = sql.column_list(keys, self.mark)
            return [f"INSERT INTO {target} ({names}) SELECT {names} FROM {source} ON CONFLICT ({key_list}) {action}"]
        if self.is_derby:
            return [sql.merge(target, source, keys, columns, self.mark)]
        same = " AND ".join(f"{target}.{self.quoted(key)} = s.{self.quoted(key)}" for key in keys)
        return [
            f"DELETE FROM {target} WHERE EXISTS (SELECT 1 FROM {source} s WHERE {same})",
            f"INSERT INTO {target} ({names}) SELECT {names} FROM {source}",
        ]

    def like(self, name: str, target: str, columns: Sequence[str]) -> str:
        """The statement that makes an empty table with some columns of another."""
        names = sql.column_list(columns, self.mark)
        if self.is_postgres:
            return f"CREATE UNLOGGED TABLE {name} AS SELECT {names} FROM {target} WITH NO DATA"
        if self.is_derby:
            return f"CREATE TABLE {name} AS SELECT {names} FROM {target} WITH NO DATA"
        return f"CREATE TABLE {name} AS SELECT {names} FROM {target} WHERE 1 = 0"


class Connection:
    """One connection; `commit` keeps what was done, else it is undone."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def run(self, statement: str, *values: str | int) -> int:
        """Carry a statement out; returns how many rows it changed."""
        prepared = self._prepared(statement, values)
        try:
            return int(prepared.executeUpdate())
        finally:
            prepared.close()

    def rows(self, statement: str, *values: str | int, columns: int = 1) -> list[tuple[Any, ...]]:
        """The rows that a query gives: numbers and texts."""
        prepared = self._prepared(statement, values)
        try:
            found = prepared.executeQuery()
            rows = []
            while found.next():
                rows.append(tuple(found.getObject(at + 1) for at in range(columns)))
            return rows
        finally:
            prepared.close()

    def tables(self, beginning: str) -> list[str]:
        """The names of tables that begin so, in upper or lower case."""
        facts = self._java.getMetaData()
        names = []
        found = facts.getTables(self._java.getCatalog(), None, "%", None)
        while found.next():
            name = str(found.getString("TABLE_NAME"))
            if name.lower().startswith(beginning.lower()):
                names.append(name)
        return names

    def commit(self) -> None:
        """Keep what was done since the last commit."""
        self._java.commit()

    def rollback(self) -> None:
        """Undo what was done since the last commit."""
        self._java.rollback()

    def close(self) -> None:
        """Undo what was not committed, and end."""
        if not self._java.isClosed():
            self._java.rollback()
            self._java.close()

    def _prepared(self, statement: str, values: Sequence[str | int]) -> Any:
        prepared = self._java.prepareStatement(statement)
        for at, value in enumerate(values, 1):
            if isinstance(value, str):
                prepared.setString(at, value)
            else:
                prepared.setLong(at, value)
        return prepared
