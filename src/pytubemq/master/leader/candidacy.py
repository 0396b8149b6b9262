"""A Master's candidacy in the election that its store has.

The invariant: whoever is told that it leads has the tables of its store, and an epoch that no other Master has.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from pytubemq.net.elect.sole_elector import SoleElector
from pytubemq.storage.metastore.opening import open_postgres

if TYPE_CHECKING:
    from pytubemq.core.database.postgres_options import PostgresOptions
    from pytubemq.net.clock import Clock
    from pytubemq.net.elect.elector import Elector


async def make_elector(
    database: PostgresOptions | None, holder: str, *, lease_s: float, clock: Clock, create: bool = True
) -> Elector:
    """Return the elector of the Master at the address `holder`, whose records are in a database, or in its own file.

    Raises:
        MissingExtraError: the extra [postgres] is not installed.
        NotFoundError: there are no tables, and none are to be made.
        TubeError: the database cannot be used.
    """
    if database is None:
        return SoleElector(holder)
    # The tables first, the lease is in one of them. On a thread, as this blocks.
    store = await asyncio.get_running_loop().run_in_executor(None, partial(open_postgres, database, create=create))
    store.close()
    from pytubemq.net.elect.postgres_elector import PostgresElector  # its driver is there, as the store needed it

    return PostgresElector(database, holder, lease_s=lease_s, clock=clock)
