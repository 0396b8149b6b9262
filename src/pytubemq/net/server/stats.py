"""Counters of one server."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAY_S: Final = 86_400


@dataclass(slots=True)
class ServerStats:
    """Counters since start."""

    connections: int = 0
    accepted: int = 0
    refused: int = 0
    calls: int = 0
    faults: int = 0
    """Connections closed for a fault in a frame, a frame never finished, or silence."""
    failed: int = 0
    """Calls answered with an exception."""
    late: int = 0
    """Responses dropped because their caller's deadline had passed."""
    slow_readers: int = 0
    """Connections closed because their peers did not read their responses."""
    made_room: int = 0
    """Connections closed to make room for a new one, because they were unused or silent, or their host had most."""
    unsent_bytes: int = 0
    """Bytes of responses that peers have not received."""
    tls_failures: int = 0
    """TLS handshakes that failed or were not over in time."""
    certificate_expires_s: float | None = None
    """The time when the certificate of the TLS port expires, in seconds since 1970; None without that port."""

    @property
    def certificate_days(self) -> Mapping[tuple[str, ...], float]:
        """The days until that certificate expires, as a metric's values; negative once it has."""
        return days_until(self.certificate_expires_s)


def days_until(expires_s: float | None) -> Mapping[tuple[str, ...], float]:
    """Return the days until then (s since 1970), as a metric's values; negative if it has passed, none for None."""
    return {} if expires_s is None else {(): (expires_s - time.time()) / _DAY_S}
