"""A metadata store in one SQLite file, with a seal beside it.

The invariants: what a call has written survives a power cut and is in the file itself when the call returns (the
write-ahead log is flushed, then moved into the file and emptied); what is loaded is all that was written, or an error
that names what is damaged or lost. A file written by a newer version is refused and left untouched.

`epoch` columns are reserved for leadership by lease: a write will then prove the leader's number in its own
transaction. Until there are several Masters every row has 0.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import CorruptError, DiskFullError, NewerVersionError, StorageError, TubeError
from pytubemq.model.records import BrokerRecord, DeployRecord, TopicRecord
from pytubemq.storage.disk.disk import PRIVATE_FILE, close_to_others, make_private
from pytubemq.storage.metastore.checks import Totals, check_of_row
from pytubemq.storage.metastore.problems import dangling
from pytubemq.storage.metastore.reading import damage_text, metadata_of, name_of, note_missing, sound_record
from pytubemq.storage.metastore.seal import read_seal, seal_path, write_seal
from pytubemq.storage.metastore.tables import TABLE_OF, TABLES, Table, key_of, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pytubemq.model.records import Record
    from pytubemq.storage.metastore.port import Metadata


logger = logging.getLogger(__name__)

# The migration with which records and the table `state` got checksums.
LAYOUT_WITH_CHECKS: Final = 4
COUNT_OF_RECORDS: Final = "the count of its records"
"""The name for damage where every record is sound and their number or sum is not the one that was written."""
REPAIR_HINT: Final = (
    "put a copy of the directory in its place, or keep what is sound with `pytubemq store metadata {} --repair --yes`: "
    "Brokers keep their topics, `pytubemq cluster adopt` then takes over what is missing"
)
_DAMAGE: Final = (
    "SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_FORMAT", "SQLITE_SCHEMA", "SQLITE_TOOBIG",
    "SQLITE_MISMATCH",
)  # fmt: skip
"""The beginnings of SQLite's messages about an unreadable file; SQLite has no code for text that is not UTF-8."""


class SqliteMetaStore:
    """`MetaStore` in the file `path`, which is made if it is not there (its directory too).

    Raises:
        NewerVersionError: a newer version wrote the file.
        CorruptError: it, or its write-ahead log, is damaged or missing.
        StorageError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seal = seal_path(path)
        with _explained(path):
            make_private(path.parent)
            close_to_others(path.parent)
            sealed = read_seal(self._seal)
            # A seal without its file: the records are lost. A new file would start a
            # Master without topics, and nobody would know.
            if sealed is not None and sealed.generation and not (path.exists() and path.stat().st_size):
                raise lost(path, Totals(), sealed)
            # Not left to SQLite, which would let every user of the machine read it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))
            # Before SQLite opens the file: opening replays the log and drops what fails its check, and then nobody
            # could see what was lost.
            keep_log(path)
            # The port promises one thread at a time, not always the same one.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            with _explained(path):
                _prepare(self._db, path)
            self._totals = self._check(sealed)
            # Everything was found, so the copy of the log is of no more use.
            with suppress(FileNotFoundError):
                kept_log(path).unlink()
        except BaseException:
            self._db.close()
            raise

    def load(self) -> Metadata:
        with _explained(self._path):
            reading = read_records(self._db)
        return reading.metadata

    def apply(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        totals = self._totals.next()
        with self._transaction():
            # Deletes come first, so that one change can replace a record by another one of its key.
            for record in deletes:
                totals = self._without(record, totals)
                self._db.execute(_delete(TABLE_OF[type(record)]), key_of(record))
            for record in puts:
                # The sum loses the old row's checksum before the row is overwritten.
                totals = self._without(record, totals)
                table, row = TABLE_OF[type(record)], row_of(record)
                check = check_of_row(table.name, row)
                self._db.execute(_put(table), [*row, check])
                totals = totals.plus(check)
            last = max((record.stamp.serial_id for record in puts), default=0)
            # Numbers never come again, also not after the newest record was deleted: clients compare them.
            self._db.execute("UPDATE serial SET last = MAX(?, last) WHERE id = 1", (last,))
            # In the transaction of the change, so that the two never disagree.
            _write_totals(self._db, totals)
            # Inside the transaction: a violation rolls all of the change back.
            self._check_deploys(puts, deletes)
        # Only after the commit: a change that failed is not counted.
        self._totals = totals
        self._settle()

    def close(self) -> None:
        self._db.close()

    def _check(self, sealed: Totals | None) -> Totals:
        """Compare the records with the file's own totals and with the seal.

        Raises:
            CorruptError: records are damaged or lost; the error names them, or counts them.
        """
        with _explained(self._path):
            # SQLite knows the file's structure and not its values, our checksums the values alone: both have to agree.
            problems = [str(row[0]) for row in self._db.execute("PRAGMA integrity_check(5)")]
            reading = read_records(self._db)
        damaged = [*reading.damaged, *(problem for problem in problems if problem != "ok")]
        if damaged:
            raise CorruptError(
                f"{self._path} is damaged: {damage_text(damaged)}",
                hint=REPAIR_HINT.format(self._path.parent),
            )
        totals = reading.totals
        # A seal is written after the change that it counts, so the file had these changes once.
        if sealed is not None and sealed.generation > totals.generation:
            raise lost(self._path, totals, sealed)
        if sealed is not None and sealed.generation == totals.generation and sealed != totals:
            raise CorruptError(
                f"{self._path} is damaged: its {totals.records} records are not the {sealed.records} that "
                f"{self._seal.name} counts",
                hint=REPAIR_HINT.format(self._path.parent),
            )
        # A seal that is behind is no loss: it follows the change, and a crash may have come between them.
        if sealed != totals:
            if sealed is None and totals.generation:
                logger.warning("%s had no seal: it is taken as it is, and sealed", self._path)
            self._settle(totals)
        return totals

    def _without(self, record: Record, totals: Totals) -> Totals:
        table = TABLE_OF[type(record)]
        where = " AND ".join(f'"{column}" = ?' for column in table.key) or "id = 1"
        row = self._db.execute(f'SELECT "check" FROM {table.name} WHERE {where}', key_of(record)).fetchone()
        return totals if row is None else totals.minus(row[0])

    def _settle(self, totals: Totals | None = None) -> None:
        """Move the log into the file, so that the file alone has every change, and count the change in the seal.

        The change is durable already: a failure here only makes a later loss harder to detect, until the next change.
        """
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            write_seal(self._seal, totals or self._totals)
        except (sqlite3.Error, OSError) as error:
            logger.error(
                "a change of %s is only in its write-ahead log, or not counted in %s, until the next change: %s",
                self._path,
                self._seal,
                error,
            )

    def _check_deploys(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        """Check foreign keys before the commit, which could not name the missing record; only those of this change."""
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
            # Takes the write lock now, so that another process in the way shows before anything is written.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:  # on a full disk SQLite has ended it
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a file: the records whose checksum is right, the names of the others, and its totals."""

    metadata: Metadata
    damaged: tuple[str, ...]
    totals: Totals


def read_records(db: sqlite3.Connection, *, tolerant: bool = False) -> Reading:
    """Read all records, each with its checksum.

    With `tolerant` a table that cannot be read to its end counts as damaged. Raises `sqlite3.DatabaseError`.
    """
    rows: dict[type[Any], list[Any]] = {}
    damaged: list[str] = []
    counted = Totals()
    for table in TABLES:
        rows[table.kind] = []
        for *row, check in _rows(db, table, damaged if tolerant else None):
            # By the checksum in the row, right or wrong, since the sum was made of these.
            counted = counted.plus(check if isinstance(check, int) else 0)
            record = sound_record(table, row, check)
            if record is None:
                damaged.append(name_of(table, row))
            else:
                rows[table.kind].append(record)
    found = metadata_of(rows, 0)
    try:
        serial = db.execute("SELECT last FROM serial WHERE id = 1").fetchone()
        state = db.execute('SELECT generation, records, total, "check" FROM state WHERE id = 1').fetchone()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        if not tolerant:
            raise
        serial = state = None
    # A damaged page may have a value of any type there.
    found.last_serial_id = serial[0] if serial and isinstance(serial[0], int) else 0
    if state is None or not all(isinstance(value, int) for value in state):
        return Reading(found, (*damaged, COUNT_OF_RECORDS), counted)
    totals = Totals(*state[:3])
    if serial is None or state[3] != totals.check(serial[0]):
        damaged.append(COUNT_OF_RECORDS)
    else:
        note_missing(damaged, counted, totals)
    return Reading(found, tuple(damaged), totals)


def _rows(db: sqlite3.Connection, table: Table, damaged: list[str] | None) -> Iterator[tuple[Any, ...]]:
    """Yield a table's rows; with `damaged` an error is appended to it and ends the rows."""
    try:
        yield from db.execute(_select(table))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if damaged is None:
            raise
        damaged.append(f"the rest of the table {table.name}: {error}")


def _write_totals(db: sqlite3.Connection, totals: Totals) -> None:
    (last,) = db.execute("SELECT last FROM serial WHERE id = 1").fetchone()
    db.execute(
        'UPDATE state SET generation = ?, records = ?, total = ?, "check" = ? WHERE id = 1',
        (totals.generation, totals.records, totals.total, totals.check(last)),
    )


def _add_checks(db: sqlite3.Connection) -> None:
    """Add checksums to a file of a version without them."""
    totals = Totals()
    for table in TABLES:
        if table.since:
            continue
        # All rows before the first change, as the loop changes the table that it reads.
        for *row, _ in db.execute(_select(table)).fetchall():
            check = check_of_row(table.name, row)
            where = " AND ".join(f'"{column}" = ?' for column in table.key) or "id = 1"
            key = [row[table.columns.index(column)] for column in table.key]
            db.execute(f'UPDATE {table.name} SET "check" = ? WHERE {where}', (check, *key))
            totals = totals.plus(check)
    _write_totals(db, totals)


def _select(table: Table) -> str:
    order = f" ORDER BY {_names(table.key)}" if table.key else ""
    return f'SELECT {_names(table.columns)}, "check" FROM {table.name}{order}'


def _put(table: Table) -> str:
    columns, marks = _names((*table.columns, "check")), ", ".join("?" * (len(table.columns) + 1))
    if not table.key:
        columns, marks = f"id, {columns}", f"1, {marks}"
    return f"INSERT OR REPLACE INTO {table.name} ({columns}) VALUES ({marks})"


def _delete(table: Table) -> str:
    wanted = " AND ".join(f'"{column}" = ?' for column in table.key)
    return f"DELETE FROM {table.name}" + (f" WHERE {wanted}" if wanted else "")


def kept_log(path: Path) -> Path:
    """Return the path at which the write-ahead log of a crash is kept until the file is found to be complete."""
    return path.with_name(f"{path.name}-wal.before")


def keep_log(path: Path) -> None:
    """Copy the write-ahead log that a crash left, because SQLite drops damaged frames when it opens the file."""
    log = path.with_name(f"{path.name}-wal")
    # A copy that is there is kept: it is from the first start after the crash, and SQLite has changed the log since.
    if log.exists() and log.stat().st_size and not kept_log(path).exists():
        shutil.copy2(log, kept_log(path))


def lost(path: Path, found: Totals, sealed: Totals) -> CorruptError:
    """Return the error for a file that has fewer changes than its seal counts."""
    return CorruptError(
        f"{path} lacks {sealed.generation - found.generation} of {sealed.generation} changes: it, or its write-ahead "
        f"log {path.name}-wal, was lost or damaged; it has {found.records} records where {sealed.records} should be",
        hint=f"{REPAIR_HINT.format(path.parent)}; if you put an older copy there on purpose, remove {seal_path(path)}",
    )


def _names(columns: Iterable[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _migrations() -> list[str]:
    """The numbered steps, oldest first; a file's number is the layout it leads to."""
    folder = resources.files("pytubemq.storage.metastore") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in files]


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Check the layout's number and migrate the file to ours.

    A number lower than the file's actual layout is damage, not age.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    steps = _migrations()
    # Before anything is written, as this program would drop what it does not know.
    if version > len(steps):
        raise NewerVersionError(
            f"{path} has layout {version}, this version knows up to {len(steps)}",
            hint="run the pytubemq version that wrote it, or a newer one",
        )
    # A flipped bit in the number must not make a migration run over a file that is newer.
    has_checks = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone() is not None
    if has_checks != (version >= LAYOUT_WITH_CHECKS):
        raise CorruptError(
            f"{path} is damaged: its layout is not the one of its number {version}",
            hint=REPAIR_HINT.format(path.parent),
        )
    db.execute("PRAGMA journal_mode=WAL")
    # In WAL mode anything less does not flush at a commit, so a power cut could take changes that were answered.
    db.execute("PRAGMA synchronous=FULL")
    # Off in SQLite by default, on each connection.
    db.execute("PRAGMA foreign_keys=ON")
    db.execute("PRAGMA busy_timeout=5000")
    for number, step in enumerate(steps[version:], version + 1):
        # `executescript` would commit behind our back, so the transaction is part of the script.
        db.executescript(f"BEGIN IMMEDIATE;\n{step}\nPRAGMA user_version={number};")
        # In the transaction that adds the columns: no file has them without their sums.
        if number == LAYOUT_WITH_CHECKS:
            _add_checks(db)
        db.execute("COMMIT")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's and the system's errors as ours, naming the file."""
    try:
        yield
    except TubeError:
        raise
    except sqlite3.DatabaseError as error:
        name = error.sqlite_errorname if hasattr(error, "sqlite_errorname") else ""
        # Want of space passes, and says nothing about the file.
        if name == "SQLITE_FULL":
            raise DiskFullError(
                f"no space left to write {path}", hint="free some space; service then returns"
            ) from error
        if name.startswith(_DAMAGE) or (not name and isinstance(error, sqlite3.OperationalError)):
            raise CorruptError(
                f"{path} is not a sound SQLite database: {error}", hint=REPAIR_HINT.format(path.parent)
            ) from error
        raise StorageError(
            f"cannot use {path}: {error}", hint="check that the directory exists and can be written"
        ) from error
    except UnicodeDecodeError as error:  # in a name or a text of SQLite's own message
        raise CorruptError(
            f"{path} is not a sound SQLite database: {error}", hint=REPAIR_HINT.format(path.parent)
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot use {path}: {error.strerror or error}", hint="check that the directory exists and can be written"
        ) from error
