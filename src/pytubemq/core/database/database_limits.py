"""The bounds of every wait for a database, and of the lease in it; the other bounds are in `model.limits`.

Times are in seconds. A statement of a Master takes milliseconds, so each of these is long enough for a slow machine and
short enough that a request over HTTP gets its error instead of a time-out of its own.
"""

from __future__ import annotations

from typing import Final

DATABASE_CONNECT_TIMEOUT_S: Final = 5
"""A connection to one host (libpq's `connect_timeout`; its least is 2)."""
DATABASE_KEEPALIVE_IDLE_S: Final = 5
DATABASE_KEEPALIVE_INTERVAL_S: Final = 2
DATABASE_KEEPALIVES: Final = 3
"""A peer that is gone without a word is noticed 5 + 3 x 2 s after the last byte (Linux's default: two hours)."""
DATABASE_SEND_TIMEOUT_S: Final = 10
"""Bytes that nobody acknowledges (`tcp_user_timeout`)."""
DATABASE_LOCK_TIMEOUT_S: Final = 3
"""A lock that another transaction holds."""
DATABASE_STATEMENT_TIMEOUT_S: Final = 10
"""One statement, counted by the server."""
DATABASE_IDLE_TIMEOUT_S: Final = 3
"""A transaction of a Master that has stopped: the server ends it, so that its locks keep nobody waiting."""
DATABASE_RESPONSE_TIMEOUT_S: Final = 15
"""One response, counted by us: a server that is stopped counts nothing."""

LEASE_S: Final = 1.5
"""The time for which a Master leads after each renewal, so that the next one answers within two seconds (Kafka's
controller: 2 s to fetch, 9 s to fail over)."""
LEASE_RENEWALS: Final = 4
"""Renewals in the time of a lease: two may be lost."""
MIN_LEASE_S: Final = 0.5
MAX_LEASE_S: Final = 300.0
"""The longest lease that counts, whoever wrote it into the database: a standby waits no longer than this."""
LEASE_MARGIN: Final = 0.2
"""The part of a lease at its end in which its holder no longer acts as the leader."""
