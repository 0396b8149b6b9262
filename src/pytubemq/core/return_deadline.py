"""When a client whose connection closed must have been heard of again: a decision, times come in.

The invariant: a client that lives and reconnects with its next heartbeat is always in time, also when the heartbeat
that was due next broke with the connection and only the one after it arrives.
"""

from __future__ import annotations

from pytubemq.model.limits import HEARTBEAT_IN_FLIGHT_S


def return_deadline_s(*, lost_s: float, beat_s: float, grace_s: float) -> float:
    """Return until when to wait for a client that reconnects only with its next heartbeat (Java, C++, Go).

    Such a client does not notice a closed connection before it sends; its heartbeats go on at their own period. So the
    next one is due a period after the last, however long after that the connection closed. Only shortly before it is
    due it may have been in flight: a Java client whose heartbeat fails sends the next one a whole period later.

    Args:
        lost_s: when the connection closed.
        beat_s: when its last heartbeat, or its registration, arrived.
        grace_s: its longest period, with a margin.
    """
    due_s = beat_s + grace_s
    return due_s if due_s - lost_s >= HEARTBEAT_IN_FLIGHT_S else lost_s + grace_s
