"""The meaning of PostgreSQL's errors: which of ours each one is, and what to do about it.

By the five characters of SQLSTATE, which no language and no version of the server changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import (
    ConfigError,
    CorruptError,
    DatabaseReadOnlyError,
    DatabaseTimeoutError,
    DatabaseUnreachableError,
    DiskFullError,
    StorageError,
    TubeError,
)

if TYPE_CHECKING:
    from pytubemq.core.database.postgres_options import PostgresOptions

_AWAY: Final = ("08", "57P", "53300", "53400")
"""Beginnings of the codes of a lost connection, of a server that stops or starts, or that has no connection left."""
_SLOW: Final = ("57014", "55P03", "25P03", "25P04", "40001", "40P01")
"""Codes of a statement, a lock or a transaction that took longer than it may, and of one that others were in the way
of: nothing was changed, and another try may succeed."""
_REFUSED: Final = ("28", "3D", "42501")
"""Beginnings of the codes of a wrong user, password or database, and of a right that the user lacks."""
_DAMAGED: Final = ("42P01", "42703", "3F000", "XX001", "XX002")
"""Codes of a missing table, column or schema, and of damaged data or indexes."""
_READ_ONLY: Final = "25006"
_DISK_FULL: Final = "53100"
_NOT_STORABLE: Final = "22"
_MAX_TEXT_CHARS: Final = 400


def database_error(options: PostgresOptions, code: str | None, text: str) -> TubeError:
    """Return our error for one of PostgreSQL's; `code` is its SQLSTATE, None if the server did not respond."""
    place, said = options.place, _shown(options, text)
    if code is None or code.startswith(_AWAY):
        return DatabaseUnreachableError(
            f"the database {place} cannot be used now: {said}",
            hint="check that it runs and can be reached, its address and user in the URL, and the password",
        )
    if code == _DISK_FULL:
        return DiskFullError(f"no space left to write to the database {place}: {said}", hint="free some space there")
    if code == _READ_ONLY:
        return DatabaseReadOnlyError(
            f"the database {place} is read-only: {said}",
            hint="name the primary in the URL, or all servers with ?target_session_attrs=read-write",
        )
    if code in _SLOW:
        return slow(options, said)
    if code.startswith(_REFUSED):
        return ConfigError(
            f"the database {place} refuses: {said}",
            hint="check the user and the database in the URL, and the password; the user needs the rights that "
            "docs/how-to/keep-metadata-in-postgresql.md gives it",
        )
    if code in _DAMAGED:
        return CorruptError(
            f"the records in the database {place} are damaged: {said}", hint="restore the database from a backup"
        )
    if code.startswith(_NOT_STORABLE):
        return StorageError(f"the database {place} cannot store a value: {said}", hint="change the value")
    return StorageError(f"the database {place} failed: {said}", hint="see the log of the database")


def slow(options: PostgresOptions, reason: str) -> DatabaseTimeoutError:
    """Return the error of a database that did not respond in time."""
    return DatabaseTimeoutError(
        f"the database {options.place} is too slow: {reason}",
        hint="try again; if it stays so, check its load, and look for a transaction there that does not end",
    )


def _shown(options: PostgresOptions, text: str) -> str:
    """Return a text of the server's in one line, without the password, whatever may have repeated it."""
    said = "; ".join(line.strip() for line in text.splitlines() if line.strip()) or "no reason was given"
    if options.password:
        said = said.replace(options.password, "(password)")
    return said if len(said) <= _MAX_TEXT_CHARS else f"{said[:_MAX_TEXT_CHARS]}..."
