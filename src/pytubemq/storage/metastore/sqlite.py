"""A metadata store in one SQLite file.

The invariant: what a call has written survives a power cut (`synchronous=FULL`: the write-ahead log is flushed before
the call returns). A file written by a newer version is refused and left untouched.

`epoch` columns are reserved for leadership by lease: a write will then prove the leader's number in its own
transaction. Until there are several Masters every row has 0.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from pytubemq.errors import CorruptError, DiskFullError, NewerVersionError, StorageError, TubeError
from pytubemq.model.ids import Address
from pytubemq.model.topic import TopicConfig
from pytubemq.storage.metastore.port import BrokerRecord, ClusterSettings, TopicRecord
from pytubemq.storage.metastore.problems import no_broker, no_topic, topic_exists

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_CONFIG_COLUMNS = (
    "partitions, stores, accept_publish, accept_subscribe, delete_policy, deploy.max_message_bytes, status"
)


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

    def brokers(self) -> list[BrokerRecord]:
        rows = self._read(
            "SELECT broker_id, host, port, tls_port, manage_status, created_ms, serial_id FROM broker"
            " ORDER BY broker_id"
        )
        return [BrokerRecord(row[0], Address(row[1], row[2]), *row[3:]) for row in rows]

    def put_broker(self, broker: BrokerRecord, *, now_ms: int) -> BrokerRecord:
        with self._transaction():
            known = self._db.execute(
                "SELECT created_ms FROM broker WHERE broker_id = ?", (broker.broker_id,)
            ).fetchone()
            stored = replace(broker, created_ms=known[0] if known else now_ms, serial_id=self._serial(now_ms))
            self._db.execute(
                "INSERT INTO broker (broker_id, host, port, tls_port, manage_status, created_ms, serial_id)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (broker_id) DO UPDATE SET host = excluded.host,"
                " port = excluded.port, tls_port = excluded.tls_port, manage_status = excluded.manage_status,"
                " serial_id = excluded.serial_id",
                (
                    stored.broker_id,
                    stored.address.host,
                    stored.address.port,
                    stored.tls_port,
                    stored.manage_status,
                    stored.created_ms,
                    stored.serial_id,
                ),
            )
        return stored

    def topics(self) -> list[TopicRecord]:
        topics = {
            row[0]: TopicRecord(*row)
            for row in self._read("SELECT name, max_message_bytes, created_ms, serial_id FROM topic ORDER BY name")
        }
        for topic, broker_id, *config in self._read(
            f"SELECT topic, broker_id, {_CONFIG_COLUMNS} FROM deploy ORDER BY topic, broker_id"
        ):
            topics[topic].deploys[broker_id] = _config(topic, config)
        return list(topics.values())

    def create_topic(self, topic: TopicRecord, *, now_ms: int) -> TopicRecord:
        with self._transaction():
            if self._db.execute("SELECT 1 FROM topic WHERE name = ?", (topic.name,)).fetchone():
                raise topic_exists(topic.name)
            stored = replace(
                topic,
                created_ms=now_ms,
                serial_id=self._serial(now_ms),
                deploys=dict(sorted(topic.deploys.items())),
            )
            self._db.execute(
                "INSERT INTO topic (name, max_message_bytes, created_ms, serial_id) VALUES (?, ?, ?, ?)",
                (stored.name, stored.max_message_bytes, stored.created_ms, stored.serial_id),
            )
            self._put_deploys(topic.name, list(stored.deploys.items()))
        return stored

    def deploy_topic(self, name: str, deploys: Sequence[tuple[int, TopicConfig]], *, now_ms: int) -> TopicRecord:
        with self._transaction():
            changed = self._db.execute(
                "UPDATE topic SET serial_id = ? WHERE name = ?", (self._serial(now_ms), name)
            ).rowcount
            if not changed:
                raise no_topic(name)
            self._put_deploys(name, deploys)
        return next(topic for topic in self.topics() if topic.name == name)

    def settings(self) -> ClusterSettings:
        rows = self._read("SELECT max_message_bytes, qry_priority_id, serial_id FROM cluster WHERE id = 1")
        return ClusterSettings(*rows[0]) if rows else ClusterSettings()

    def put_settings(self, settings: ClusterSettings, *, now_ms: int) -> ClusterSettings:
        with self._transaction():
            stored = replace(settings, serial_id=self._serial(now_ms))
            self._db.execute(
                "INSERT OR REPLACE INTO cluster (id, max_message_bytes, qry_priority_id, serial_id)"
                " VALUES (1, ?, ?, ?)",
                (stored.max_message_bytes, stored.qry_priority_id, stored.serial_id),
            )
        return stored

    def close(self) -> None:
        self._db.close()

    def _read(self, statement: str) -> list[Any]:
        with _explained(self._path):
            return self._db.execute(statement).fetchall()

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

    def _serial(self, now_ms: int) -> int:
        (serial,) = self._db.execute(
            "UPDATE serial SET last = MAX(?, last + 1) WHERE id = 1 RETURNING last", (now_ms,)
        ).fetchone()
        return int(serial)

    def _put_deploys(self, topic: str, deploys: Sequence[tuple[int, TopicConfig]]) -> None:
        known = {row[0] for row in self._db.execute("SELECT broker_id FROM broker")}
        for broker_id, config in deploys:
            if broker_id not in known:
                raise no_broker(broker_id)
            self._db.execute(
                "INSERT OR REPLACE INTO deploy (topic, broker_id, partitions, stores, accept_publish,"
                " accept_subscribe, delete_policy, max_message_bytes, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    topic,
                    broker_id,
                    config.partitions,
                    config.stores,
                    config.accept_publish,
                    config.accept_subscribe,
                    config.delete_policy,
                    config.max_message_bytes,
                    config.status,
                ),
            )


def _config(topic: str, row: list[Any]) -> TopicConfig:
    partitions, stores, accept_publish, accept_subscribe, delete_policy, max_message_bytes, status = row
    return TopicConfig(
        topic,
        partitions,
        stores,
        bool(accept_publish),
        bool(accept_subscribe),
        delete_policy,
        max_message_bytes,
        status,
    )


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
                f"{path} is not a sound SQLite database: {error}", hint="restore it from a copy"
            ) from error
        raise StorageError(
            f"cannot use {path}: {error}", hint="check that the directory exists and can be written"
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot use {path}: {error.strerror or error}", hint="check that the directory exists and can be written"
        ) from error
