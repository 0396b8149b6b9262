"""Counters of one server."""

from __future__ import annotations

from dataclasses import dataclass


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
