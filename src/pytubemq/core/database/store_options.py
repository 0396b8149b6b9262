"""The options of a store that several Masters share, whichever it is."""

from __future__ import annotations

from typing import TypeAlias

from pytubemq.core.database.postgres_options import PostgresOptions
from pytubemq.core.database.zookeeper_options import ZOOKEEPER_SCHEME, ZooKeeperOptions

StoreOptions: TypeAlias = PostgresOptions | ZooKeeperOptions


def store_options(url: str, password: str | None = None) -> StoreOptions:
    """Return the options of the store that a URL names.

    Raises:
        ConfigError: the URL names no store, or has a password in it.
    """
    if url.partition("://")[0] == ZOOKEEPER_SCHEME:
        return ZooKeeperOptions(url, password)
    return PostgresOptions(url, password)
