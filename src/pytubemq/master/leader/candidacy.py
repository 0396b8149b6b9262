"""A Master's candidacy in the election that its store has.

The invariant: whoever is told that it leads has the tables of its store, and an epoch that no other Master has.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from pytubemq.core.database.postgres_options import PostgresOptions
from pytubemq.net.elect.lease_elector import LeaseElector
from pytubemq.net.elect.sole_elector import SoleElector
from pytubemq.net.elect.threaded_lease import ThreadedLease
from pytubemq.storage.metastore.opening import open_database

if TYPE_CHECKING:
    from pytubemq.core.database.store_options import StoreOptions
    from pytubemq.net.clock import Clock
    from pytubemq.net.elect.elector import Elector
    from pytubemq.net.elect.stored_lease import StoredLease


async def make_elector(
    database: StoreOptions | None, holder: str, *, lease_s: float, clock: Clock, create: bool = True
) -> Elector:
    """Return the elector of the Master at the address `holder`; without `database` its records are in a file.

    Raises:
        MissingExtraError: the extra [postgres] or [zookeeper] is not installed.
        NotFoundError: there are no tables or nodes, and none are to be made.
        TubeError: the database cannot be used.
    """
    if database is None:
        return SoleElector(holder)
    # The tables or nodes first, the lease is in one of them. On a thread, as this blocks.
    store = await asyncio.get_running_loop().run_in_executor(None, partial(open_database, database, create=create))
    store.close()
    return LeaseElector(_lease_in(database, lease_s, clock), holder, lease_s=lease_s, clock=clock)


def _lease_in(database: StoreOptions, lease_s: float, clock: Clock) -> StoredLease:
    """Return the lease of a database, whose driver is there, as the store needed it."""
    if isinstance(database, PostgresOptions):
        from pytubemq.net.elect.postgres_lease import PostgresLease

        return PostgresLease(database, clock, statement_s=lease_s)
    from pytubemq.storage.metastore.zookeeper_store.lease import ZooKeeperLease

    return ThreadedLease(ZooKeeperLease(database))
