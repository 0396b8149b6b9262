"""Metadata stores in the databases of a test's PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.core.database.postgres_options import SCHEMA, PostgresOptions
from pytubemq.net.clock import SystemClock
from pytubemq.net.elect.lease_elector import LeaseElector

if TYPE_CHECKING:
    from pytubemq.storage.metastore.postgres import PostgresMetaStore
    from tests.support.postgres import Postgres


def options_of(server: Postgres, database: str, *, address: str | None = None) -> PostgresOptions:
    """The options of a database; the address may be another way to the server."""
    return PostgresOptions(server.database_url(database, address=address), server.password)


def open_store(server: Postgres, database: str, *, address: str | None = None) -> PostgresMetaStore:
    """A store whose Master does not lead."""
    from pytubemq.storage.metastore.postgres import PostgresMetaStore  # only where a server is

    return PostgresMetaStore(options_of(server, database, address=address))


def leading_store(server: Postgres, database: str, *, address: str | None = None) -> PostgresMetaStore:
    """A store whose Master has just become the leader."""
    store = open_store(server, database, address=address)
    store.lead(succeed(server, database))
    return store


def elector_in_postgres(options: PostgresOptions, holder: str, *, lease_s: float) -> LeaseElector:
    """An elector on the lease of a database whose tables are there."""
    from pytubemq.net.elect.postgres_lease import PostgresLease  # only where a server is

    clock = SystemClock()
    return LeaseElector(PostgresLease(options, clock, statement_s=lease_s), holder, lease_s=lease_s, clock=clock)


def succeed(server: Postgres, database: str, holder: str = "a test") -> int:
    """Take the lease for somebody else, whoever has it; return the new epoch."""
    statement = f"UPDATE {SCHEMA}.lease SET epoch = epoch + 1, holder = '{holder}' RETURNING epoch"
    ((epoch,),) = server.run(statement, database=database)
    assert isinstance(epoch, int)
    return epoch
