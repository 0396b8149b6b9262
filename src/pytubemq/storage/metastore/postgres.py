"""A metadata store in a PostgreSQL database.

The invariants: each write proves the epoch of its Master in its own transaction, so a Master that another one has
succeeded changes nothing; a write counts the changes before it, so one that was reported as failed and was stored
after all is found before the next; what is loaded is all that was written, or an error that names what is damaged. A
layout of a newer version is refused and left untouched.

A broken connection is opened again by the next call. Only a break during a commit leaves its outcome open: it is then
looked up, behind the lock that the commit held.
"""

from __future__ import annotations

import time
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from pytubemq.core.database.database_limits import (
    DATABASE_CONNECT_TIMEOUT_S,
    DATABASE_IDLE_TIMEOUT_S,
    DATABASE_LOCK_TIMEOUT_S,
)
from pytubemq.core.database.postgres_options import SCHEMA
from pytubemq.errors import (
    ConfigError,
    CorruptError,
    DatabaseTimeoutError,
    DatabaseUnreachableError,
    FencedError,
    NewerVersionError,
    NotFoundError,
    StorageError,
)
from pytubemq.model.records import BrokerRecord, DeployRecord, TopicRecord
from pytubemq.storage.metastore.checks import Totals, check_of_row
from pytubemq.storage.metastore.postgres_connection import READ, WRITE, PostgresConnection, UnknownOutcomeError
from pytubemq.storage.metastore.problems import dangling
from pytubemq.storage.metastore.reading import damage_text, metadata_of, name_of, note_missing, sound_record
from pytubemq.storage.metastore.tables import TABLE_OF, TABLES, Table, key_of, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.core.database.postgres_options import PostgresOptions
    from pytubemq.model.records import Record
    from pytubemq.storage.metastore.port import Metadata

_LAYOUT_LOCK: Final = 0x7075_6265
"""The advisory lock of whoever makes or changes the tables; any number that others do not use."""
_LOOKUP_S: Final = DATABASE_IDLE_TIMEOUT_S + DATABASE_LOCK_TIMEOUT_S + DATABASE_CONNECT_TIMEOUT_S
"""The time for finding out whether a commit took place: by then the server has ended the transaction."""
_LOOKUP_PAUSE_S: Final = 0.1
_STATE: Final = f'SELECT generation, records, total, last_serial_id, "check" FROM {SCHEMA}.state WHERE id = 1'
_RESTORE: Final = "restore the database from a backup"


class PostgresMetaStore:
    """`MetaStore` in the schema `pytubemq` of a database; the tables are made if they are not there.

    Args:
        options: the database.
        create: make the tables, or bring older ones up to date.

    Raises:
        NotFoundError: there are no tables, and none are to be made.
        NewerVersionError: a newer version made the tables.
        ConfigError: the database refuses this user, or is not in UTF-8.
        DatabaseUnreachableError, DatabaseTimeoutError, DatabaseReadOnlyError: it is away, too slow, or read-only.
    """

    def __init__(self, options: PostgresOptions, *, create: bool = True) -> None:
        self._options = options
        self._connection = PostgresConnection(options)
        self._epoch = 0
        self._totals: Totals | None = None
        """The totals after the last change that is known here; None until the records have been read."""
        try:
            self._prepare(create=create)
        except BaseException:
            self._connection.close()
            raise

    def lead(self, epoch: int) -> None:
        """Write from now on as the leader of this epoch; whoever becomes the leader loads the records after this."""
        self._epoch = epoch
        self._totals = None

    def changes(self) -> int:
        """Return how many changes there have been."""
        found = self._connection.rows(_STATE)
        return int(found[0][0]) if found else 0

    def load(self) -> Metadata:
        records: dict[type[Any], list[Any]] = {}
        damaged: list[str] = []
        counted = Totals()
        with self._connection.transaction(READ):
            found = self._connection.rows(_STATE)
            state = found[0] if found else None
            for table in TABLES:
                records[table.kind] = []
                for *row, check in self._connection.rows(_select(table)):
                    counted = counted.plus(check)
                    record = sound_record(table, row, check)
                    if record is None:
                        damaged.append(name_of(table, row))
                    else:
                        records[table.kind].append(record)
        totals, last_serial_id = self._sound_state(state, counted, damaged)
        self._totals = totals
        return metadata_of(records, last_serial_id)

    def apply(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        fresh = not self._connection.is_open
        try:
            self._write(puts, deletes)
        except UnknownOutcomeError as error:
            self._look_up(error)
        except DatabaseUnreachableError:
            # A connection that broke since the last change says nothing about the database; the next one does.
            if fresh:
                raise
            try:
                self._write(puts, deletes)
            except UnknownOutcomeError as error:
                self._look_up(error)

    def close(self) -> None:
        self._connection.close()

    # --- the layout ---------------------------------------------------------------------------------------------

    def _prepare(self, *, create: bool) -> None:
        """Make the tables, or bring older ones up to date."""
        steps = _migrations()
        version = self._version(len(steps))
        if version == len(steps):
            return
        if not create:
            raise NotFoundError(
                f"the database {self._options.place} has no tables of this version", hint="start a Master on it first"
            )
        with self._connection.transaction(WRITE):
            # Several Masters may start at once.
            self._connection.rows("SELECT pg_advisory_xact_lock(%s)", (_LAYOUT_LOCK,))
            version = self._version(len(steps))
            for number, step in enumerate(steps[version:], version + 1):
                self._connection.rows(step)
                self._connection.rows(f"UPDATE {SCHEMA}.layout SET version = %s WHERE id = 1", (number,))

    def _version(self, newest: int) -> int:
        """Return the version of the layout that is there, 0 without one; refuse a newer one."""
        ((encoding, layout),) = self._connection.rows(
            "SELECT current_setting('server_encoding'), to_regclass(%s)::text", (f"{SCHEMA}.layout",)
        )
        if encoding != "UTF8":
            raise ConfigError(
                f"the database {self._options.place} has the encoding {encoding}",
                hint="make one in UTF-8:  CREATE DATABASE pytubemq ENCODING 'UTF8' TEMPLATE template0",
            )
        if layout is None:
            return 0
        found = self._connection.rows(f"SELECT version FROM {SCHEMA}.layout WHERE id = 1")
        if not found:
            raise CorruptError(
                f"the version of the layout is missing in the database {self._options.place}", hint=_RESTORE
            )
        version = int(found[0][0])
        # Before anything is written, as this program would drop what it does not know.
        if version > newest:
            raise NewerVersionError(
                f"the database {self._options.place} has layout {version}, this version knows up to {newest}",
                hint="run the pytubemq version that made it, or a newer one",
            )
        return version

    # --- a change -----------------------------------------------------------------------------------------------

    def _write(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        with self._connection.transaction(WRITE):
            self._prove_epoch()
            totals, last_serial_id = self._locked_state()
            totals = totals.next()
            # Deletes come first, so that one change can replace a record by another one of its key.
            for record in deletes:
                for (check,) in self._connection.rows(_delete(TABLE_OF[type(record)]), key_of(record)):
                    totals = totals.minus(check)
            for record in puts:
                table, row = TABLE_OF[type(record)], row_of(record)
                check = check_of_row(table.name, row)
                values = [int(value) if isinstance(value, bool) else value for value in row]
                for (old,) in self._connection.rows(_put(table), [*key_of(record), *values, self._epoch, check]):
                    totals = totals.minus(old)
                totals = totals.plus(check)
            # Numbers never come again, also not after the newest record was deleted: clients compare them.
            last_serial_id = max([last_serial_id, *(record.stamp.serial_id for record in puts)])
            self._connection.rows(
                f"UPDATE {SCHEMA}.state SET generation = %s, records = %s, total = %s, last_serial_id = %s, "
                '"check" = %s WHERE id = 1',
                (totals.generation, totals.records, totals.total, last_serial_id, totals.check(last_serial_id)),
            )
            # Inside the transaction: a violation rolls all of the change back.
            self._check_deploys(puts, deletes)
        self._totals = totals

    def _prove_epoch(self) -> None:
        """Hold the lease as it is until the transaction ends: a new leader waits for that, a renewal does not."""
        found = self._connection.rows(f"SELECT epoch, holder FROM {SCHEMA}.lease WHERE id = 1 FOR KEY SHARE")
        if not found:
            raise CorruptError(f"the row of the lease is missing in the database {self._options.place}", hint=_RESTORE)
        epoch, holder = found[0]
        if self._epoch <= 0:
            raise FencedError(
                f"this Master does not lead, so it changes nothing in {self._options.place}",
                hint="ask the Master that leads",
            )
        if epoch != self._epoch:
            other = f"{holder} leads" if holder else "another Master has led"
            raise FencedError(
                f"this Master no longer leads: {other} with epoch {epoch}, and this one had {self._epoch}; nothing "
                "was changed",
                hint="ask the Master that leads; this one starts again as a standby",
            )

    def _locked_state(self) -> tuple[Totals, int]:
        """Return the totals and the largest serial id, which nobody else changes until the transaction ends."""
        found = self._connection.rows(f"{_STATE} FOR UPDATE")
        state = found[0] if found else None
        if state is None or state[4] != Totals(*state[:3]).check(state[3]):
            raise CorruptError(f"the count of records in {self._options.place} is damaged", hint=_RESTORE)
        totals = Totals(*state[:3])
        if self._totals is None:
            self._totals = totals
        if totals != self._totals:
            raise StorageError(
                f"the records in {self._options.place} are not those that this Master knows: they have had "
                f"{totals.generation} changes, this Master knows of {self._totals.generation}. Either somebody else "
                "wrote them, or a change that was reported as failed has been stored after all",
                hint="restart this Master, which then loads them again",
            )
        return totals, state[3]

    def _check_deploys(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        """Check foreign keys before the commit, which could not name the missing record; only those of this change."""
        asked: list[tuple[str, tuple[object, ...]]] = []
        for record in puts:
            if isinstance(record, DeployRecord):
                asked.append(("d.topic = %s AND d.broker_id = %s", (record.topic, record.broker_id)))
        for record in deletes:
            if isinstance(record, TopicRecord):
                asked.append(("d.topic = %s", (record.topic,)))
            elif isinstance(record, BrokerRecord):
                asked.append(("d.broker_id = %s", (record.broker_id,)))
        for where, values in asked:
            lost = self._connection.rows(
                f"SELECT d.topic, d.broker_id FROM {SCHEMA}.deploy d LEFT JOIN {SCHEMA}.topic t USING (topic) "
                f"LEFT JOIN {SCHEMA}.broker b USING (broker_id) "
                f"WHERE (t.topic IS NULL OR b.broker_id IS NULL) AND {where} LIMIT 1",
                values,
            )
            if lost:
                raise dangling(*lost[0])

    def _look_up(self, error: UnknownOutcomeError) -> None:
        """Return if a commit of unknown outcome took place.

        Raises:
            DatabaseUnreachableError: it did not, or nobody can say in time.
            FencedError: another Master leads, and its changes cannot be told from this one.
        """
        end_s = time.monotonic() + _LOOKUP_S
        known = self._totals
        while known is not None:
            try:
                with self._connection.transaction(WRITE):
                    # Until the transaction of the commit has ended, the lock keeps this waiting.
                    found = self._connection.rows(f"{_STATE} FOR UPDATE")
                    epoch = self._connection.rows(f"SELECT epoch FROM {SCHEMA}.lease WHERE id = 1")
            except (DatabaseUnreachableError, DatabaseTimeoutError):
                if time.monotonic() > end_s:
                    break
                time.sleep(_LOOKUP_PAUSE_S)
                continue
            if epoch != [(self._epoch,)]:
                raise FencedError(
                    f"this Master leads no more, and its connection to {self._options.place} broke during its last "
                    "change: whether that was stored is not known",
                    hint="look whether it was, at the Master that leads; this one starts again as a standby",
                ) from error
            if found and found[0][0] == known.generation + 1:
                self._totals = Totals(*found[0][:3])
                return
            raise DatabaseUnreachableError(f"{error.message}; nothing was changed", hint=error.hint) from error
        raise DatabaseUnreachableError(
            f"{error.message}; whether the change was stored is not known",
            hint="check whether it was, once the database responds; if it was, this Master refuses all changes "
            "until it is restarted",
        ) from error

    def _sound_state(self, state: Sequence[Any] | None, counted: Totals, damaged: list[str]) -> tuple[Totals, int]:
        """Return the totals and the largest serial id.

        Raises:
            CorruptError: records, or their number, are not those that were written.
        """
        totals = Totals() if state is None else Totals(*state[:3])
        if state is None or state[4] != totals.check(state[3]):
            damaged.append("the count of its records")
        else:
            note_missing(damaged, counted, totals)
        if damaged:
            raise CorruptError(
                f"the database {self._options.place} is damaged, or was changed by another program: "
                f"{damage_text(damaged)}",
                hint=_RESTORE,
            )
        return totals, 0 if state is None else int(state[3])


def _select(table: Table) -> str:
    order = f" ORDER BY {_names(table.key)}" if table.key else ""
    return f'SELECT {_names(table.columns)}, "check" FROM {SCHEMA}.{table.name}{order}'


def _put(table: Table) -> str:
    """Return the statement that adds or replaces a record, and gives the checksum of the one that was there."""
    columns = (*table.columns, "epoch", "check")
    names, marks = _names(columns), ", ".join(["%s"] * len(columns))
    if not table.key:
        names, marks = f"id, {names}", f"1, {marks}"
    replaced = ", ".join(f'"{column}" = EXCLUDED."{column}"' for column in columns if column not in table.key)
    return (
        f'WITH old AS (SELECT "check" FROM {SCHEMA}.{table.name} WHERE {_is_key(table)}), '
        f"written AS (INSERT INTO {SCHEMA}.{table.name} ({names}) VALUES ({marks}) "
        f"ON CONFLICT ({_names(table.key) or 'id'}) DO UPDATE SET {replaced}) "
        'SELECT "check" FROM old'
    )


def _delete(table: Table) -> str:
    return f'DELETE FROM {SCHEMA}.{table.name} WHERE {_is_key(table)} RETURNING "check"'


def _is_key(table: Table) -> str:
    return " AND ".join(f'"{column}" = %s' for column in table.key) or "id = 1"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _migrations() -> list[str]:
    """Return the numbered steps, oldest first; a file's number is the layout that it leads to."""
    folder = resources.files("pytubemq.storage.metastore") / "postgres_migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in files]
