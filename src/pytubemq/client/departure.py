"""When the next batch to a Broker may leave.

The invariant: at most `MAX_FLIGHTS` batches are on their way, and one while it is unsure what the Broker has counted;
what is not much waits for an answer, so that batches grow with the load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.limits import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.client.flight import Flight
    from pytubemq.client.unit_queue import UnitQueue

MAX_FLIGHTS = 4
"""Batches on the way to one Broker: enough to keep it busy while answers travel."""
EAGER_MESSAGES = MAX_BATCH_MESSAGES // 4
EAGER_BYTES = MAX_BATCH_BYTES // 4
"""So much is worth a batch of its own while another is on its way; less waits for that one's answer."""


def may_fly(flying: Collection[Flight], queue: UnitQueue, *, unsure: bool) -> bool:
    """Whether another batch of what is queued may leave now; `unsure`: only one at a time keeps order."""
    if len(flying) >= (1 if unsure else MAX_FLIGHTS):
        return False
    return not flying or queue.messages >= EAGER_MESSAGES or queue.size_bytes >= EAGER_BYTES
