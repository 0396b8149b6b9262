"""This process's connection to a cluster, kept from task to task and from micro-batch to micro-batch.

Spark makes a writer anew each time, in worker processes that it keeps for about a minute: connecting each time would
cost more than a small batch. The invariant: a process uses connections that it made itself; one that failed is closed
and made again.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytubemq.sync
from pytubemq.client.sync import exit_hook
from pytubemq.spark.task_secret import check_own_secret

if TYPE_CHECKING:
    from pytubemq.client.partition_state import Known
    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.sync import Tube

_open: dict[tuple[int, ClusterAddress], tuple[Tube, str]] = {}
"""Connections, each with the driver's client whose token it has; blank for none."""
_lock = threading.Lock()


def connected(masters: ClusterAddress, known: Known | None = None) -> Tube:
    """Return the connection to this cluster; `known` comes from the driver, with a client token.

    Raises:
        UnreachableError: no Master answers.
    """
    shared = "" if known is None else known.client_id
    key = (os.getpid(), masters)  # a forked worker must not use its parent's sockets
    with _lock:
        tube, client_id = _open.get(key, (None, ""))
        if tube is not None and client_id and client_id != shared:
            del _open[key]  # its token is that of a driver's client that is gone
            tube.close()
            tube = None
        if tube is None:
            check_own_secret(masters, known)
            tube = pytubemq.sync.connect(masters, client_name="spark", known=known).__enter__()
            exit_hook.forget(id(tube))  # it is kept for other tasks, whose messages are delivered when they end
            _open[key] = tube, shared
        elif known is not None:
            tube.learn(known)
        return tube


def passed_on(masters: ClusterAddress) -> Known | None:
    """Return what tasks need instead of credentials; None if the Master has issued no token.

    It names no Broker, so a task connects to a Master first, as every producer does.

    Raises:
        TubeError: the Master refuses the user, or does not answer.
    """
    tube = connected(masters)
    tube.partitions_of(())  # registers, and so renews the token
    known = tube.known
    return replace(known, brokers=()) if known.client_token else None


def forget(masters: ClusterAddress) -> None:
    """Close it; the next use makes another."""
    with _lock:
        kept = _open.pop((os.getpid(), masters), None)
    if kept is not None:
        kept[0].close()
