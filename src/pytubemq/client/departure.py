"""When the next batch to a Broker may leave, and when the one after it goes to another partition.

The invariant: at most `MAX_FLIGHTS` batches are on their way, and one while it is unsure what the Broker has counted;
what is neither much nor behind very little waits for an answer, so that batches grow with the load.
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
FEW_MESSAGES = 2
"""Behind one batch of so few, another leaves at once: at rates at which batches are as small as that, what counts is
that no message waits for another's answer. Larger ones show that there is more to gather."""
STAY_S = 0.003
"""So long batches of few go to one partition: whoever reads it gets several of them at once if it is slower, and no
more batches than it would if the messages had left together."""


def may_fly(flying: Collection[Flight], queue: UnitQueue, *, unsure: bool) -> bool:
    """Whether another batch of what is queued may leave now; `unsure`: only one at a time keeps order."""
    if len(flying) >= (1 if unsure else MAX_FLIGHTS):
        return False
    if not flying or queue.messages >= EAGER_MESSAGES or queue.size_bytes >= EAGER_BYTES:
        return True
    return len(flying) == 1 and all_few(flying)


def may_move(flying: Collection[Flight], *, stayed_s: float) -> bool:
    """Whether what may go anywhere goes to another partition now, `stayed_s` after it last did."""
    return stayed_s >= STAY_S or not all_few(flying)


def all_few(flying: Collection[Flight]) -> bool:
    """Whether each of these carries a few messages only."""
    return all(flight.messages <= FEW_MESSAGES for flight in flying)
