"""Requests in flight to a Broker, how many there may be, and the number of refusals that the next one reports.

The invariant: at most `MAX_IN_FLIGHT` requests are in flight, and only one while it is uncertain how many the Broker
has refused. A few messages wait for a response, so that batches grow with the load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytubemq.model.limits import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.client.producer.messages.record_batch import RecordBatch
    from pytubemq.client.producer.send_queue import SendQueue
    from pytubemq.net.client.connection import RpcConnection

MAX_IN_FLIGHT = 4
"""Requests in flight to one Broker: enough to keep it busy while responses travel."""
EAGER_MESSAGES = MAX_BATCH_MESSAGES // 4
EAGER_BYTES = MAX_BATCH_BYTES // 4
"""Enough for a request while another is in flight; less waits for that one's response."""


class InFlightRequest(NamedTuple):
    """A request that has no response yet."""

    batches: list[RecordBatch]
    connection: RpcConnection
    counts_refusal: bool
    """True if the Broker counts its refusal; it does not count those of single messages."""
    is_probe: bool
    """True if it was sent to find out how many refusals the Broker has counted."""


def may_send(in_flight: Collection[InFlightRequest], queue: SendQueue, *, unsure: bool) -> bool:
    """True if another request may be sent now; `unsure`: only one at a time keeps the order."""
    if len(in_flight) >= (1 if unsure else MAX_IN_FLIGHT):
        return False
    # Little waits for the response, so that batches grow while the Broker is busy.
    return not in_flight or queue.messages >= EAGER_MESSAGES or queue.size_bytes >= EAGER_BYTES


class RefusalCount:
    """The number of batches that the Broker has refused on one connection, as far as the sender can know.

    The invariant: the Broker's count is between `_known` and `_known + _unanswered`. To say more than the Broker
    counted is not harmless while several batches are in flight: one that is refused then raises its count to no more
    than what the next one says, which is accepted, and the repeated messages land behind it. So while the two differ
    the sender sends one at a time.

    It finds out with those. A batch that says the least possible (`_known`), alone in flight, is either accepted, which
    shows that no unanswered one was counted: a Broker decides the batches of a connection in the order they came, so
    none of them can be counted later. Or it is refused as sent without knowledge of a refusal: then at least one of
    them was counted.
    """

    def __init__(self) -> None:
        self._known = 0
        self._unanswered = 0
        self._may_probe = True

    @property
    def unsure(self) -> bool:
        """True if the Broker's count may be lower than what a batch must report to be accepted for certain."""
        return self._unanswered > 0

    @property
    def probes(self) -> bool:
        """True if the next batch, alone in flight, is to find out what the Broker has counted."""
        return self._unanswered > 0 and self._may_probe

    @property
    def seen(self) -> int:
        """Number of refusals that the next batch reports."""
        return self._known if self.probes else self._known + self._unanswered

    def record_accepted(self, *, is_probe: bool) -> None:
        """Record that a batch was written, at least in part."""
        if is_probe:
            self._unanswered = 0
        self._may_probe = True

    def record_refused(self, *, is_probe: bool, behind: bool) -> None:
        """Record that a batch was refused for now; `behind`: because it did not report an earlier refusal."""
        self._known += 1
        if is_probe and behind and self._unanswered:
            self._known += 1
            self._unanswered -= 1
        elif is_probe:
            self._may_probe = False  # for another reason, or unsaid: the next says enough, lest it is refused for ever

    def record_timeout(self) -> None:
        """Record a timeout: the Broker may have dropped the batch for its age and counted that."""
        self._unanswered += 1
