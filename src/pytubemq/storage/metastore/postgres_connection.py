"""One connection to PostgreSQL for a thread that may wait, but never without an end.

The invariants: every call ends within a bounded time, also where the server is stopped or cut off and counts no time of
its own; a connection after an error that it cannot go on after is closed, and the next call opens a new one; every
error is one of ours, without the password.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from pytubemq.core.database.database_limits import (
    DATABASE_IDLE_TIMEOUT_S,
    DATABASE_LOCK_TIMEOUT_S,
    DATABASE_RESPONSE_TIMEOUT_S,
    DATABASE_STATEMENT_TIMEOUT_S,
)
from pytubemq.core.database.limited_steps import NoResponse, limited_steps
from pytubemq.core.database.postgres_faults import database_error, slow
from pytubemq.core.database.postgres_options import EXAMPLE
from pytubemq.errors import ConfigError, DatabaseUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg.abc import PQGen

    from pytubemq.core.database.postgres_options import PostgresOptions

T = TypeVar("T")

READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""Begins a transaction that sees one state of all tables."""
WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Begins a transaction whose statements see what others have committed before each of them, as locks need it. It does
not ask to write, so that an operator can close a database for writing by `default_transaction_read_only`."""
_LIMITS: Final = {
    "statement_timeout": f"{DATABASE_STATEMENT_TIMEOUT_S}s",
    "lock_timeout": f"{DATABASE_LOCK_TIMEOUT_S}s",
    "idle_in_transaction_session_timeout": f"{DATABASE_IDLE_TIMEOUT_S}s",
}
_DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
"""Else a crash of the server could take changes that were answered."""


class UnknownOutcomeError(DatabaseUnreachableError):
    """The connection broke, or its time was over, during a commit: the changes are stored, or they are not."""


class PostgresConnection:
    """A connection that is opened when it is needed; blocking, for one thread at a time."""

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._connection: _LimitedConnection | None = None

    @property
    def is_open(self) -> bool:
        """True if there is a connection that has not been found broken."""
        return self._connection is not None and not self._connection.closed

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; `values` are those of its `%s`."""
        with self._explained():
            cursor = self._opened().execute(statement, values or None)
            return cursor.fetchall() if cursor.description is not None else []

    @contextmanager
    def transaction(self, begin: str) -> Iterator[None]:
        """Run the block's statements as one transaction, which ends with the block; an error rolls all of it back.

        Raises:
            UnknownOutcomeError: it may have been committed, or not.
            TubeError: nothing was changed.
        """
        self.rows(begin)
        try:
            yield
        except BaseException:
            self._roll_back()
            raise
        try:
            self.rows("COMMIT")
        except DatabaseUnreachableError as error:
            raise UnknownOutcomeError(error.message, hint=error.hint) from error
        finally:
            self._roll_back()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _opened(self) -> _LimitedConnection:
        if self._connection is not None and self._connection.closed:
            self._connection = None
        if self._connection is None:
            try:
                made = _LimitedConnection.connect(self._options.url, autocommit=True, **self._options.parameters())
            except psycopg.ProgrammingError as error:
                raise ConfigError(f"the database's URL is refused: {error}", hint=f"write it as in {EXAMPLE}") from None
            try:
                for name, value in _LIMITS.items():
                    made.execute("SELECT set_config(%s, %s, false)", (name, value))
                made.execute(_DURABLE)
            except BaseException:
                made.close()
                raise
            self._connection = made
        return self._connection

    def _roll_back(self) -> None:
        """End a transaction that is still open; closing the connection is as good, since the server then ends it."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        if connection.info.transaction_status == TransactionStatus.IDLE:
            return
        try:
            connection.execute("ROLLBACK")
        except (psycopg.Error, NoResponse):
            self.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """PostgreSQL's errors as ours."""
        try:
            yield
        except NoResponse as error:
            # Whatever comes later on it would be taken for the response to something else.
            self.close()
            late = slow(self._options, f"no response in {DATABASE_RESPONSE_TIMEOUT_S} s")
            raise DatabaseUnreachableError(late.message, hint=late.hint) from error
        except psycopg.Error as error:
            code = error.sqlstate
            if code is None and not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                # Refused here, before it was sent: a value or a parameter that PostgreSQL has no form for.
                code = "42000" if isinstance(error, psycopg.ProgrammingError) else "22000"
            # No cause: psycopg's error has the connection, and that the password.
            raise database_error(self._options, code, str(error)) from None
        except UnicodeEncodeError as error:
            raise database_error(self._options, "22000", "a text with half a character in it") from error


class _LimitedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for a response for a bounded time."""

    def wait(self, gen: PQGen[T], *waiting: Any, **more: Any) -> T:
        end_s = time.monotonic() + DATABASE_RESPONSE_TIMEOUT_S
        return super().wait(limited_steps(gen, lambda: time.monotonic() > end_s), *waiting, **more)
