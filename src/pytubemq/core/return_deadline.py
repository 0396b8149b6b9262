"""The deadline for the return of a client whose connection closed: a pure decision on times.

The invariant: a live client that reconnects with its next heartbeat is always in time, also when that heartbeat was
lost with the connection and only the following one arrives.
"""

from __future__ import annotations

from pytubemq.model.limits import HEARTBEAT_IN_FLIGHT_S


def return_deadline_s(*, lost_s: float, beat_s: float, grace_s: float) -> float:
    """Return the deadline for a client that reconnects only with its next heartbeat (Java, C++, Go).

    Such a client does not notice a closed connection before it sends. Its next heartbeat is due one period after the
    last, whenever the connection closed. A heartbeat may have been in flight only shortly before it is due: a Java
    client whose heartbeat fails sends the next one a whole period later.

    Args:
        lost_s: time when the connection closed.
        beat_s: time when the last heartbeat, or the registration, arrived.
        grace_s: the client's longest heartbeat period, with a margin.
    """
    # Not from the loss: with a period counted from there, a killed consumer's partitions waited 14 s each time.
    due_s = beat_s + grace_s
    return due_s if due_s - lost_s >= HEARTBEAT_IN_FLIGHT_S else lost_s + grace_s
