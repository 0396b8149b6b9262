"""This process's connection to a cluster, kept from task to task and from micro-batch to micro-batch.

Spark makes a writer anew each time, in worker processes that it keeps for about a minute: connecting each time would
cost more than a small batch. The invariant: a process uses connections that it made itself; one that failed is closed
and made again.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytubemq.sync

if TYPE_CHECKING:
    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.sync import Tube

_open: dict[tuple[int, ClusterAddress], Tube] = {}
_lock = threading.Lock()


def connected(masters: ClusterAddress) -> Tube:
    """Return the connection to this cluster.

    Raises:
        UnreachableError: no Master answers.
    """
    key = (os.getpid(), masters)  # a forked worker must not use its parent's sockets
    with _lock:
        tube = _open.get(key)
        if tube is None:
            tube = pytubemq.sync.connect(masters, client_name="spark").__enter__()
            _open[key] = tube
        return tube


def forget(masters: ClusterAddress) -> None:
    """Close it; the next use makes another."""
    with _lock:
        tube = _open.pop((os.getpid(), masters), None)
    if tube is not None:
        tube.close()
