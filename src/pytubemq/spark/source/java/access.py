"""One connection to a cluster per process, on a thread of its own, for tasks and for the driver.

The invariant: what was opened in a parent is never used in a forked worker; Spark forks them.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from pytubemq.client.reader.range_group import GroupRanges
from pytubemq.net.iothread import IoThread
from pytubemq.spark.task_secret import check_own_secret

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pytubemq.client.partition_state import Known
    from pytubemq.model.cluster_address import ClusterAddress

T = TypeVar("T")


class Access:
    """A cluster's Brokers, for one process. Get it with `access`."""

    def __init__(self, masters: ClusterAddress, known: Known | None) -> None:
        self._io = IoThread(name="pytubemq-java")
        self._known = known
        self.ranges = GroupRanges(masters, client_name="spark", known=known)

    def open(self) -> None:
        """Reach a Master."""
        try:
            self._io.run(self.ranges.open())
        except BaseException:
            self._io.close()
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the connection's thread."""
        return self._io.run(coroutine)

    def learn(self, known: Known) -> None:
        """Take what the driver knows by now, if this is news."""
        if known != self._known:
            self._known = known
            self._io.call(lambda: self.ranges.cluster.learn(known))

    def close(self) -> None:
        """Close the connections. Idempotent."""
        if not self._io.closed:
            try:
                self._io.run(self.ranges.close())
            finally:
                self._io.close()


_open: dict[tuple[int, ClusterAddress], Access] = {}
_open_lock = threading.Lock()


def access(masters: ClusterAddress, known: Known | None = None) -> Access:
    """Return this process's access to a cluster, made at the first call.

    `known` is what the driver had learned of the cluster: with it a task needs no Master.

    Raises:
        UnreachableError: no Master answers, and nothing is known.
    """
    key = (os.getpid(), masters)
    with _open_lock:
        found = _open.get(key)
        if found is None:
            check_own_secret(masters, known)
            found = Access(masters, known)
            found.open()
            _open[key] = found
        elif known is not None:
            found.learn(known)
        return found


def forget(masters: ClusterAddress) -> None:
    """Close this process's connections to a cluster; the next use opens new ones."""
    with _open_lock:
        found = _open.pop((os.getpid(), masters), None)
    if found is not None:
        found.close()
