"""One connection to the database with the lease, for an event loop.

The invariants: every call ends within its limit; a call that is cancelled closes the connection at once, as nobody
reads the response any more; every error is one of ours, without the password.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import waiting

from pytubemq.core.database.limited_steps import NoResponse, limited_steps
from pytubemq.core.database.postgres_faults import database_error, slow
from pytubemq.core.database.postgres_options import EXAMPLE
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.abc import PQGen

    from pytubemq.core.database.postgres_options import PostgresOptions
    from pytubemq.net.clock import Clock

T = TypeVar("T")

_LOOK_S: Final = 0.05
"""The time between two looks at the limit while nothing comes."""


class LeaseConnection:
    """A connection that is opened when it is needed, and again after it broke.

    Args:
        options: the database.
        clock: measures the limits.
        statement_s: the time after which the server itself ends a statement, in seconds.
    """

    def __init__(self, options: PostgresOptions, clock: Clock, *, statement_s: float) -> None:
        self._options = options
        self._clock = clock
        self._statement_s = statement_s
        self._connection: _LimitedConnection | None = None

    async def row(
        self, statement: str, values: Sequence[Any] = (), *, limit_s: float, connect_s: float | None = None
    ) -> tuple[Any, ...] | None:
        """Run one statement as a transaction of its own; return its row, None without one.

        `limit_s` is the time for everything, or, with `connect_s` for the connection, for the statement alone.

        Raises:
            DatabaseUnreachableError, DatabaseTimeoutError: it is away or too slow; the statement may have taken effect.
            TubeError: it refuses the statement, which had no effect.
        """
        end_s = self._clock.now_s() + limit_s
        allowed_s = limit_s if connect_s is None else connect_s
        try:
            connection = await self._opened(allowed_s)
            if connect_s is not None:
                end_s, allowed_s = self._clock.now_s() + limit_s, limit_s
            connection.is_over = lambda: self._clock.now_s() > end_s
            cursor = await connection.execute(statement, values or None)
            found: tuple[Any, ...] | None = await cursor.fetchone() if cursor.description is not None else None
            return found
        except (NoResponse, TimeoutError) as error:
            self.drop()
            raise slow(self._options, f"no response in {allowed_s:.1f} s") from error
        except psycopg.Error as error:
            if error.sqlstate is None:
                self.drop()
            # No cause: psycopg's error has the connection, and that the password.
            raise database_error(self._options, error.sqlstate, str(error)) from None

    def drop(self) -> None:
        """Close the connection without a word to the server. Idempotent; it does not wait."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pgconn.finish()

    async def _opened(self, limit_s: float) -> _LimitedConnection:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        self.drop()
        end_s = self._clock.now_s() + limit_s
        try:
            async with asyncio.timeout(limit_s):
                made = await _LimitedConnection.connect(
                    self._options.url, autocommit=True, **self._options.parameters()
                )
        except psycopg.ProgrammingError as error:
            raise ConfigError(f"the database's URL is refused: {error}", hint=f"write it as in {EXAMPLE}") from None
        self._connection, made.is_over = made, lambda: self._clock.now_s() > end_s
        # Not what is left of a lease just now: the connection stays for later statements.
        milliseconds = max(1, int(self._statement_s * 1000))
        for name in ("statement_timeout", "lock_timeout"):
            await made.execute("SELECT set_config(%s, %s, false)", (name, f"{milliseconds}ms"))
        return made


class _LimitedConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that waits for a response until its owner's time is over."""

    is_over: Callable[[], bool]

    async def wait(self, gen: PQGen[T], *_: Any, **__: Any) -> T:
        try:
            return await waiting.wait_async(limited_steps(gen, self.is_over), self.pgconn.socket, interval=_LOOK_S)
        except asyncio.CancelledError:
            # psycopg would ask the server to cancel, and wait for that.
            self.pgconn.finish()
            raise
