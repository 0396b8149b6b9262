"""The lease in a PostgreSQL database, in the row of table `lease`.

The invariant: the row changes from one holder to the next by one statement that compares it with what was seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.core.database.lease_watch import Lease
from pytubemq.core.database.postgres_options import SCHEMA
from pytubemq.errors import CorruptError
from pytubemq.net.elect.lease_connection import LeaseConnection

if TYPE_CHECKING:
    from pytubemq.core.database.postgres_options import PostgresOptions
    from pytubemq.net.clock import Clock

_CONNECT_S: Final = 30.0
"""The time for a standby's connection, in which no lease runs out: a URL may name several servers, the first of them
gone without a word, and each may take its own time (`DATABASE_CONNECT_TIMEOUT_S`)."""
_RETURN_LIMIT_S: Final = 1.0
"""The time for giving the lease back; without that, others wait until it ends."""
_SEE: Final = f"SELECT epoch, holder, renewals, lease_ms FROM {SCHEMA}.lease WHERE id = 1"
_TAKE: Final = (
    f"UPDATE {SCHEMA}.lease SET epoch = epoch + 1, holder = %s, renewals = renewals + 1, lease_ms = %s, "
    "until = clock_timestamp() + %s * interval '1 millisecond' "
    "WHERE id = 1 AND epoch = %s AND holder = %s AND renewals = %s RETURNING epoch"
)
# Without a wait for the disk: a renewal that a crash of the server undoes was in time all the same, and the next one
# is on its way. The epoch is never changed like this.
_RENEW: Final = (
    f"UPDATE {SCHEMA}.lease SET renewals = renewals + 1, until = clock_timestamp() + %s * interval '1 millisecond' "
    "FROM (SELECT set_config('synchronous_commit', 'off', true)) AS without_wait "
    "WHERE id = 1 AND epoch = %s RETURNING epoch"
)
_RETURN: Final = f"UPDATE {SCHEMA}.lease SET holder = '', until = clock_timestamp() WHERE id = 1 AND epoch = %s"


class PostgresLease:
    """`StoredLease` on a database whose tables are there (the store makes them).

    Args:
        options: the database.
        clock: measures the limits.
        statement_s: the time after which the server itself ends a statement, in seconds.
    """

    def __init__(self, options: PostgresOptions, clock: Clock, *, statement_s: float) -> None:
        self._options = options
        self._connection = LeaseConnection(options, clock, statement_s=statement_s)
        self._lease_ms = 0
        """The time for which the lease was taken."""

    async def see(self, *, limit_s: float) -> Lease:
        found = await self._connection.row(_SEE, limit_s=limit_s, connect_s=_CONNECT_S)
        if found is None:
            raise CorruptError(
                f"the row of the lease is missing in the database {self._options.place}",
                hint="restore the database from a backup",
            )
        return Lease(int(found[0]), str(found[1]), int(found[2]), int(found[3]) / 1000)

    async def take(self, seen: Lease, *, holder: str, lease_s: float, limit_s: float) -> bool:
        lease_ms = self._lease_ms = int(lease_s * 1000)
        values = (holder, lease_ms, lease_ms, seen.epoch, seen.holder, seen.renewals)
        return await self._connection.row(_TAKE, values, limit_s=limit_s) is not None

    async def renew(self, epoch: int, *, limit_s: float) -> bool:
        return await self._connection.row(_RENEW, (self._lease_ms, epoch), limit_s=limit_s) is not None

    async def give_back(self, epoch: int, *, limit_s: float) -> None:
        await self._connection.row(_RETURN, (epoch,), limit_s=limit_s)

    def close(self) -> None:
        self._connection.drop()
