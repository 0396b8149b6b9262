"""Reports of tasks to the driver about their partitions: Spark has no way for that, so each is a datagram.

The invariant: a report is help, never a condition. A task neither waits for it nor fails over it, one that is lost is
missing, and the driver takes only what is signed with its query's own secret.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address
from pytubemq.net.sockets import datagrams_beside, datagrams_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.cluster_address import ClusterAddress

MOST_REPORTED: Final = 40
"""Ranges reported in one datagram."""
MAX_REPORT_BYTES: Final = 8192
MAX_KEPT: Final = 10_000
"""Ranges reported and not yet asked for; the oldest are forgotten."""
CLOSE_S: Final = 1.0
"""Seconds to wait for an end."""
_SECRET_BYTES: Final = 16
_SIGNED_BYTES: Final = 32

TaskReport = tuple[str, int, float]
"""A partition, how many rows of it a task has read, and how many seconds that took."""


@dataclass(frozen=True, slots=True)
class ReportTo:
    """The address to which a task reports; it goes to the executors with the task."""

    address: Address
    secret: bytes = field(repr=False)

    def send(self, reported: Sequence[TaskReport]) -> None:
        """Send reports to the driver, without waiting and without an error if it does not get them."""
        with contextlib.suppress(OSError), datagrams_to(self.address) as sender:
            for first in range(0, len(reported), MOST_REPORTED):
                body = json.dumps(reported[first : first + MOST_REPORTED]).encode()
                sender.send(_signature(self.secret, body) + body)


class Reports:
    """The reports of tasks, on the driver. It listens on a UDP port of the address that reaches the Masters: where
    the Masters are on this machine, no other machine can send to it.
    """

    def __init__(self, masters: ClusterAddress) -> None:
        """Begin to listen.

        Raises:
            ConfigError: there is no address or no port for it.
        """
        try:
            self._socket = datagrams_beside(masters.masters[0])
        except OSError as error:
            raise ConfigError(
                f"slowPartitionAdjustment needs a UDP port on the driver: {error.strerror or error}",
                hint="allow one, or leave the option out",
            ) from error
        host, port = self._socket.getsockname()[:2]
        self.to = ReportTo(Address(host, port), secrets.token_bytes(_SECRET_BYTES))
        self._reported: deque[TaskReport] = deque(maxlen=MAX_KEPT)
        self._closed = False
        self._thread = threading.Thread(target=self._hear, name="tubemq-task-reports", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Count the ranges reported since they were last taken."""
        return len(self._reported)

    def take(self) -> list[TaskReport]:
        """Take the reports that came since the last call."""
        reported: list[TaskReport] = []
        with contextlib.suppress(IndexError):
            while True:
                reported.append(self._reported.popleft())
        return reported

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        with contextlib.suppress(OSError), datagrams_to(self.to.address) as sender:
            sender.send(b"")  # closing a socket does not wake who waits for it
        self._thread.join(CLOSE_S)

    def _hear(self) -> None:
        with self._socket:
            while not self._closed:
                with contextlib.suppress(OSError):
                    self._reported.extend(_read(self._socket.recv(MAX_REPORT_BYTES), self.to.secret))


def _read(report: bytes, secret: bytes) -> list[TaskReport]:
    """Read a report; nothing if it is not signed."""
    signature, body = report[:_SIGNED_BYTES], report[_SIGNED_BYTES:]
    if not hmac.compare_digest(signature, _signature(secret, body)):
        return []
    return [(str(partition), int(rows), float(took_s)) for partition, rows, took_s in json.loads(body)]


def _signature(secret: bytes, body: bytes) -> bytes:
    return hmac.digest(secret, body, "sha256")
