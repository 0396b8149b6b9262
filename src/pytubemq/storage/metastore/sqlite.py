"""A metadata store in one SQLite file.

The invariant: what a call has written survives a power cut (`synchronous=FULL`: the write-ahead log is flushed before
the call returns). A file written by a newer version is refused and left untouched.

`epoch` columns are reserved for leadership by lease: a write will then prove the leader's number in its own
transaction. Until there are several Masters every row has 0.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING

from pytubemq.errors import CorruptError, DiskFullError, NewerVersionError, StorageError, TubeError
from pytubemq.model.records import (
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    TopicRecord,
)
from pytubemq.storage.metastore.port import Metadata
from pytubemq.storage.metastore.problems import dangling
from pytubemq.storage.metastore.tables import TABLE_OF, TABLES, Table, key_of, record_of, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pytubemq.model.records import Record


class SqliteMetaStore:
    """`MetaStore` in the file `path`, which is made if it is not there (its directory too).

    Raises:
        NewerVersionError: a newer version wrote the file.
        StorageError: the file cannot be opened, or is not a database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            with _explained(path):
                _prepare(self._db, path)
        except BaseException:
            self._db.close()
            raise

    def load(self) -> Metadata:
        found = Metadata()
        with _explained(self._path):
            rows = {
                table.kind: [record_of(table.kind, row) for row in self._db.execute(_select(table))] for table in TABLES
            }
            (found.last_serial_id,) = self._db.execute("SELECT last FROM serial WHERE id = 1").fetchone()
        for cluster in rows[ClusterRecord]:
            found.cluster = cluster
        found.brokers, found.topics = rows[BrokerRecord], rows[TopicRecord]
        found.deploys, found.consumes = rows[DeployRecord], rows[ConsumeRecord]
        found.groups = rows[GroupRecord]
        return found

    def apply(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        with self._transaction():
            for record in deletes:
                table = TABLE_OF[type(record)]
                self._db.execute(_delete(table), key_of(record))
            for record in puts:
                self._db.execute(_put(TABLE_OF[type(record)]), row_of(record))
            last = max((record.stamp.serial_id for record in puts), default=0)
            self._db.execute("UPDATE serial SET last = MAX(?, last) WHERE id = 1", (last,))
            self._check_deploys(puts, deletes)

    def close(self) -> None:
        self._db.close()

    def _check_deploys(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        """As the commit would, which cannot say what is missing; looks only at what the change may have touched."""
        missing = " (topic NOT IN (SELECT topic FROM topic) OR broker_id NOT IN (SELECT broker_id FROM broker)) LIMIT 1"
        asked: list[tuple[str, tuple[object, ...]]] = []
        for record in puts:
            if isinstance(record, DeployRecord):
                asked.append(("topic = ? AND broker_id = ?", (record.topic, record.broker_id)))
        for record in deletes:
            if isinstance(record, TopicRecord):
                asked.append(("topic = ?", (record.topic,)))
            elif isinstance(record, BrokerRecord):
                asked.append(("broker_id = ?", (record.broker_id,)))
        for where, values in asked:
            lost = self._db.execute(
                f"SELECT topic, broker_id FROM deploy WHERE {where} AND{missing}", values
            ).fetchone()
            if lost is not None:
                raise dangling(*lost)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _explained(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def _select(table: Table) -> str:
    order = f" ORDER BY {_names(table.key)}" if table.key else ""
    return f"SELECT {_names(table.columns)} FROM {table.name}{order}"


def _put(table: Table) -> str:
    columns, marks = _names(table.columns), ", ".join("?" * len(table.columns))
    if not table.key:
        columns, marks = f"id, {columns}", f"1, {marks}"
    return f"INSERT OR REPLACE INTO {table.name} ({columns}) VALUES ({marks})"


def _delete(table: Table) -> str:
    wanted = " AND ".join(f'"{column}" = ?' for column in table.key)
    return f"DELETE FROM {table.name}" + (f" WHERE {wanted}" if wanted else "")


def _names(columns: Iterable[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _migrations() -> list[str]:
    """The numbered steps, oldest first; a file's number is the layout it leads to."""
    folder = resources.files("pytubemq.storage.metastore") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in files]


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Check the layout's number and bring it up to ours."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    steps = _migrations()
    if version > len(steps):
        raise NewerVersionError(
            f"{path} has layout {version}, this version knows up to {len(steps)}",
            hint="run the pytubemq version that wrote it, or a newer one",
        )
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("PRAGMA foreign_keys=ON")
    db.execute("PRAGMA busy_timeout=5000")
    for number, step in enumerate(steps[version:], version + 1):
        # `executescript` would commit behind our back, so the transaction is part of the script.
        db.executescript(f"BEGIN IMMEDIATE;\n{step}\nPRAGMA user_version={number};\nCOMMIT;")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's and the system's errors as ours, naming the file."""
    try:
        yield
    except TubeError:
        raise
    except sqlite3.DatabaseError as error:
        name = error.sqlite_errorname if hasattr(error, "sqlite_errorname") else ""
        if name == "SQLITE_FULL":
            raise DiskFullError(
                f"no space left to write {path}", hint="free some space; service then returns"
            ) from error
        if name in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
            raise CorruptError(
                f"{path} is not a sound SQLite database: {error}",
                hint="put a copy in its place; without one, remove it and create the topics again: Brokers keep their "
                "messages",
            ) from error
        raise StorageError(
            f"cannot use {path}: {error}", hint="check that the directory exists and can be written"
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot use {path}: {error.strerror or error}", hint="check that the directory exists and can be written"
        ) from error
