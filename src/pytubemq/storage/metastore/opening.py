"""The store of a place: a directory, a database, or memory only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.core.database.postgres_options import PostgresOptions
from pytubemq.errors import ConfigError, MissingExtraError
from pytubemq.storage.metastore.memory import MemoryMetaStore
from pytubemq.storage.metastore.sqlite import SqliteMetaStore

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.core.database.store_options import StoreOptions
    from pytubemq.storage.metastore.port import MetaStore
    from pytubemq.storage.metastore.postgres import PostgresMetaStore
    from pytubemq.storage.metastore.zookeeper_store.store import ZooKeeperMetaStore

METADATA_FILE = "meta.db"
"""The name of the file in a Master's directory."""
MOVED_MARK = "meta.moved"
"""A file beside it that names the database in which this Master has led since: the records in the file are older."""


def open_metastore(directory: Path | None) -> MetaStore:
    """Return the store of the metadata in this directory, or one in memory only. It blocks while a file is opened.

    Raises:
        ConfigError: this Master has had its records in a database since.
        StorageError: the file cannot be opened, or a newer version wrote it.
    """
    if directory is None:
        return MemoryMetaStore()
    mark, file = directory / MOVED_MARK, directory / METADATA_FILE
    if mark.exists() and file.exists():
        raise ConfigError(
            f"the records in {file} are old: this Master has had them in {mark.read_text('utf-8').strip()} since",
            hint=f"set master.store to that database; or, to go back, move {file} away and copy the records with  "
            f"pytubemq master migrate --from ... --to {directory} ; or remove {mark} to begin with the old ones",
        )
    return SqliteMetaStore(file)


def open_database(options: StoreOptions, *, create: bool = True) -> PostgresMetaStore | ZooKeeperMetaStore:
    """Return the store in a database, or in ZooKeeper; it blocks, for a bounded time.

    Raises:
        MissingExtraError: the extra [postgres] or [zookeeper] is not installed.
        NotFoundError: it has no tables or nodes, and none are to be made.
        TubeError: as `PostgresMetaStore` and `ZooKeeperMetaStore`.
    """
    # Here, as most Masters have no database and need no driver for one.
    if not isinstance(options, PostgresOptions):
        try:
            from pytubemq.storage.metastore.zookeeper_store.store import ZooKeeperMetaStore
        except ImportError as error:
            raise MissingExtraError("zookeeper", "a store in ZooKeeper") from error
        return ZooKeeperMetaStore(options, create=create)
    try:
        from pytubemq.storage.metastore.postgres import PostgresMetaStore
    except ImportError as error:
        raise MissingExtraError("postgres", "a store in PostgreSQL") from error
    return PostgresMetaStore(options, create=create)


def lead_in_database(options: StoreOptions, epoch: int, *, directory: Path | None) -> MetaStore:
    """Return the store in a database, or in ZooKeeper, for the Master that leads with this epoch.

    Raises:
        ConfigError: the database has had no change yet, and the file of `directory` has records, which it would hide.
        TubeError: as `open_database`.
    """
    store = open_database(options)
    try:
        file = None if directory is None else directory / METADATA_FILE
        if file is not None and file.exists() and store.changes() == 0 and _has_records(file):
            raise ConfigError(
                f"{file} has records, and the database {options.place} has none",
                hint=f"copy them:  pytubemq master migrate --from {file.parent} --to '{options.url}' --dry-run ; or "
                "move the file away to begin without topics",
            )
        store.lead(epoch)
        if file is not None and file.exists():
            file.with_name(MOVED_MARK).write_text(f"{options.place}\n", "utf-8")
    except BaseException:
        store.close()
        raise
    return store


def _has_records(file: Path) -> bool:
    store = SqliteMetaStore(file)
    try:
        return store.load().last_serial_id > 0
    finally:
        store.close()
