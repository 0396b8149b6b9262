"""The source's connection to the cluster, and its patience with what is away.

Connections are kept at module level: Spark calls a reader anew for each task, in worker processes that it keeps, and a
connect per task would cost more than a small batch. Each thread has its own, so that none closes what another one waits
for, as pipelines that run in one process would. The invariant: what can recover is waited for, for a bounded time, and
then named; what cannot is reported at once.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pytubemq.core.retry import Backoff
from pytubemq.errors import NotFoundError, TlsError, TransportError, TubeError
from pytubemq.spark.source.planning.plan import Ends
from pytubemq.spark.task_secret import check_own_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytubemq.client.partition_state import Known
    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.model.ids import Partition
    from pytubemq.sync import Tube

FIRST_CONTACT_S: Final = 8.0
"""Seconds for which the driver tries a cluster that it has never reached: a wrong address should be reported soon."""
OUTAGE_S: Final = 60.0
"""Seconds that a cluster, or a Broker, that was reached before may be away, counted anew after each success: a
Broker's restart."""
_BACKOFF: Final = Backoff(first_s=0.1, most_s=2.0)

V = TypeVar("V")

_Key = tuple[int, int, "ClusterAddress"]
"""Process, thread, Masters: a forked worker must not use its parent's sockets."""


class _Connection(NamedTuple):
    """A connection, and the driver's client whose token it has; blank where it has none, or credentials of its own."""

    tube: Tube
    client_id: str


_open: dict[_Key, _Connection] = {}
_reached: set[ClusterAddress] = set()


class Cluster:
    """A cluster, by the addresses of its Masters. Holds no connection itself, so it can be pickled."""

    def __init__(self, masters: ClusterAddress, *, known: Known | None = None) -> None:
        """Create it; `known` is what the driver has learned, so that a task need not ask a Master."""
        self.masters = masters
        self.known = known
        self._has_known = False
        """True once the connection has metadata of the topic."""

    def ends_of(self, partition: Partition) -> Ends:
        """Fetch the ends of one partition, whatever its topic's other Brokers do.

        Raises:
            NotFoundError: it does not exist.
            TransportError: its Broker could not be reached in time.
        """
        return self.retried(lambda: ends_of(self, [partition]), needed=[partition])[partition]

    def retried(
        self,
        ask: Callable[[], dict[Partition, V]],
        *,
        needed: Collection[Partition] = (),
        read_before: bool = False,
        again: Callable[[], None] | None = None,
    ) -> dict[Partition, V]:
        """Call `ask` until its response has all of `needed` or the time is over, and return it.

        Args:
            ask: the question.
            needed: partitions of which there must be an answer; without them when they do not come within `OUTAGE_S`.
            read_before: whether these topics were read before: one that is missing is then away rather than misspelt.
            again: called before each further try.

        Raises:
            TubeError: `ask` failed in a way that does not pass, or for too long.
        """
        began_s = time.monotonic()
        tries = 0
        while True:
            tries += 1
            pause_s = _BACKOFF.delay_s(tries, random.random)
            try:
                found = ask()
            except TubeError as error:
                self.forget()
                may_pass = may_mend(error) or (read_before and isinstance(error, NotFoundError))
                if not may_pass or self._too_late(began_s, pause_s):
                    raise
            else:
                if all(partition in found for partition in needed) or self._too_late(began_s, pause_s):
                    return found
            if again is not None:
                again()
            time.sleep(pause_s)

    def _too_late(self, began_s: float, pause_s: float) -> bool:
        """True if there is no time for another try. A Master that has responded by now was no wrong address."""
        allowed_s = OUTAGE_S if self.masters in _reached else FIRST_CONTACT_S
        return time.monotonic() + pause_s > began_s + allowed_s

    def forget(self) -> None:
        """Close this thread's connections to the cluster; the next use opens new ones."""
        kept = _open.pop(self._key, None)
        if kept is not None:
            kept.tube.close()

    def tube(self) -> Tube:
        """Return this thread's connection to the cluster, opened when it is first needed.

        Most tasks do without: what the driver knows is enough for them, so the client is not even imported.
        """
        import pytubemq.sync
        from pytubemq.client.sync import exit_hook

        shared = "" if self.known is None or not self.known.client_token else self.known.client_id
        kept = _open.get(self._key)
        if kept is not None and kept.client_id and kept.client_id != shared:
            self.forget()  # its token is that of a driver's client that is gone
            kept = None
        tube = None if kept is None else kept.tube
        if tube is None:
            check_own_secret(self.masters, self.known)
            tube = pytubemq.sync.connect(self.masters, client_name="spark", known=self.known).__enter__()
            exit_hook.forget(id(tube))  # it is kept for other tasks, and has nothing under way at the process's end
            _open[self._key] = _Connection(tube, shared)
        elif self.known is not None and not self._has_known:
            tube.learn(self.known)
        if self.known is not None:
            self._has_known = True
            _reached.add(self.masters)
        return tube

    @property
    def _key(self) -> _Key:
        return os.getpid(), threading.get_ident(), self.masters

    def reached(self) -> None:
        """Record that it has answered: from now on it is away, and not a wrong address, when it does not."""
        _reached.add(self.masters)


def ends_of(cluster: Cluster, partitions: Sequence[Partition]) -> dict[Partition, Ends]:
    """Fetch the ends of partitions at pytubemq Brokers, once."""
    tube = cluster.tube()
    cluster.reached()
    looks = tube.look(partitions)
    return {partition: Ends(look.min_offset, look.max_offset, look.size_bytes) for partition, look in looks.items()}


def may_mend(error: TubeError) -> bool:
    """True if the same call may succeed once a Broker or Master is back."""
    return error.retriable or (isinstance(error, TransportError) and not isinstance(error, TlsError))
