"""Metadata stores in the nodes of a test's ZooKeeper server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytubemq.core.database.database_limits import DATABASE_RESPONSE_TIMEOUT_S
from pytubemq.net.elect.lease_elector import LeaseElector
from pytubemq.net.elect.threaded_lease import ThreadedLease

if TYPE_CHECKING:
    from pytubemq.core.database.zookeeper_options import ZooKeeperOptions
    from pytubemq.storage.metastore.zookeeper_store.store import ZooKeeperMetaStore
    from tests.support.zookeeper.server import ZooKeeper


def open_in_zookeeper(options: ZooKeeperOptions) -> ZooKeeperMetaStore:
    """A store whose Master does not lead."""
    from pytubemq.storage.metastore.zookeeper_store.store import ZooKeeperMetaStore  # only where kazoo is

    return ZooKeeperMetaStore(options)


def leading_in_zookeeper(server: ZooKeeper, root: str, *, address: str | None = None) -> ZooKeeperMetaStore:
    """A store whose Master has just become the leader."""
    store = open_in_zookeeper(server.options(root, address=address))
    store.lead(succeed(server.options(root)))
    return store


def elector_in_zookeeper(options: ZooKeeperOptions, holder: str, *, lease_s: float) -> LeaseElector:
    """An elector on the lease of a node that is there."""
    from pytubemq.storage.metastore.zookeeper_store.lease import ZooKeeperLease  # only where kazoo is

    return LeaseElector(ThreadedLease(ZooKeeperLease(options)), holder, lease_s=lease_s)


def succeed(options: ZooKeeperOptions, holder: str = "a test") -> int:
    """Take the lease for somebody else, whoever has it; return the new epoch."""
    epoch = int(raw(options, "get_async", options.node("epoch"))[1].version) + 1
    lease = {"epoch": epoch, "holder": holder, "renewals": 1, "lease_s": 60.0}
    raw(options, "set_async", options.node("epoch"), b"", version=epoch - 1)
    raw(options, "set_async", options.node("lease"), json.dumps(lease).encode())
    return epoch


def raw(options: ZooKeeperOptions, operation: str, *values: Any, **more: Any) -> Any:
    """Run one of kazoo's operations behind everybody's back; return its result."""
    from pytubemq.storage.metastore.zookeeper_store.session import ZooKeeperSession

    session = ZooKeeperSession(options)
    try:
        return session.call(
            lambda client: getattr(client, operation)(*values, **more), limit_s=4 * DATABASE_RESPONSE_TIMEOUT_S
        )
    finally:
        session.close()
