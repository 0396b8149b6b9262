"""The lease of a Master in ZooKeeper, in the nodes `lease` and `epoch`.

The invariants: the version of the node `epoch` is the epoch, so a transaction that names it is refused once another
leader has begun; the lease is taken by one transaction, which names the version of `lease` that was seen.

No ephemeral node: its server decides when that ends, and the leader would learn it too late, or not at all.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import BadVersionError, NoNodeError

from pytubemq.core.database.lease_watch import Lease
from pytubemq.errors import CorruptError
from pytubemq.storage.metastore.zookeeper_store.session import ZooKeeperSession, failed, refusal

if TYPE_CHECKING:
    from pytubemq.core.database.zookeeper_options import ZooKeeperOptions


class ZooKeeperLease:
    """`BlockingLease` on nodes that are there (the store makes them).

    Args:
        options: the servers and the node.
    """

    def __init__(self, options: ZooKeeperOptions) -> None:
        self._options = options
        self._session = ZooKeeperSession(options)
        self._lease_path, self._epoch_path = options.node("lease"), options.node("epoch")
        self._seen_version = 0
        """The version of the node `lease` when it was last seen."""
        self._held: Lease | None = None
        """The lease as it was last written here."""

    def see(self, *, limit_s: float) -> Lease:
        found = self._session.call(
            lambda client: client.get_async(self._lease_path),
            limit_s=limit_s,
            connect_s=self._options.connect_limit_s,
            accepts=NoNodeError,
        )
        try:
            content, stat = found
            values = json.loads(content)
            lease = Lease(
                int(values["epoch"]), str(values["holder"]), int(values["renewals"]), float(values["lease_s"])
            )
        except (ValueError, TypeError, KeyError):
            raise CorruptError(
                f"the lease is missing in {self._options.place}, or damaged", hint="restore the nodes from a backup"
            ) from None
        self._seen_version = int(stat.version)
        return lease

    def take(self, seen: Lease, *, holder: str, lease_s: float, limit_s: float) -> bool:
        taken = Lease(seen.epoch + 1, holder, seen.renewals + 1, lease_s)

        def change(transaction: Any) -> None:
            transaction.set_data(self._lease_path, _content(taken), version=self._seen_version)
            transaction.set_data(self._epoch_path, b"", version=seen.epoch)

        refused = failed(self._session.multi(change, limit_s=limit_s))
        if refused is None:
            self._held = taken
            return True
        if refused[0] == 0 and isinstance(refused[1], BadVersionError):
            return False
        raise CorruptError(
            f"the epoch {seen.epoch} of the lease in {self._options.place} is not the version of the node epoch: the "
            "nodes were copied, or changed by another program",
            hint="use an empty node, and copy the records into it:  pytubemq master migrate",
        )

    def renew(self, epoch: int, *, limit_s: float) -> bool:
        assert self._held is not None
        return self._write(epoch, self._held.holder, limit_s)

    def give_back(self, epoch: int, *, limit_s: float) -> None:
        self._write(epoch, "", limit_s)

    def _write(self, epoch: int, holder: str, limit_s: float) -> bool:
        assert self._held is not None
        # Counted before it is known to be written, so that no two that are written have the same number.
        held = self._held = replace(self._held, renewals=self._held.renewals + 1)
        content = _content(replace(held, holder=holder))

        def change(transaction: Any) -> None:
            transaction.check(self._epoch_path, epoch)
            transaction.set_data(self._lease_path, content)

        refused = failed(self._session.multi(change, limit_s=limit_s))
        if refused is None:
            return True
        if isinstance(refused[1], BadVersionError):
            return False
        raise refusal(self._options, refused[1])

    def drop(self) -> None:
        self._session.drop()

    def close(self) -> None:
        self._session.close()


def _content(lease: Lease) -> bytes:
    values = {"epoch": lease.epoch, "holder": lease.holder, "renewals": lease.renewals, "lease_s": lease.lease_s}
    return json.dumps(values).encode()
