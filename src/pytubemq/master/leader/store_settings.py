"""The settings of a Master's store and of its lease: their types with their meaning, and what goes with what."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from pytubemq.core.database.database_limits import MAX_LEASE_S, MIN_LEASE_S
from pytubemq.core.database.store_options import store_options
from pytubemq.errors import ConfigError

SQLITE: Final = "sqlite"
"""The value of `master.store` for a file."""

Store = Annotated[
    str,
    Meta(
        max_length=2048,
        description="where the records of topics, Brokers, groups and users are: `sqlite`, a file in the data "
        "directory; or the URL, without a password, of a PostgreSQL database, "
        "`postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full`, or of a node in ZooKeeper, "
        "`zookeeper://USER@HOST:PORT,HOST:PORT/PATH?tls_ca=FILE`, where a standby can wait to take over",
    ),
]
PasswordFile = Annotated[
    str,
    Meta(
        description="file with the password for PostgreSQL or ZooKeeper, which only its owner may read; the "
        "variable `PYTUBEMQ_STORE_PASSWORD` takes precedence"
    ),
]
LeaseSeconds = Annotated[
    float,
    Meta(
        ge=MIN_LEASE_S,
        le=MAX_LEASE_S,
        description="with PostgreSQL or ZooKeeper: this Master leads for this long after each renewal of its lease, "
        "and a standby takes over when it has seen none for this long",
    ),
]


def check_store(store: str, password_file: str) -> None:
    """Refuse a store that is none. Raises ConfigError; its text repeats no password."""
    if store != SQLITE:
        store_options(store)
    elif password_file:
        raise ConfigError(
            "master.store_password_file has no meaning without a database or ZooKeeper",
            hint="set master.store to its URL, too",
        )
