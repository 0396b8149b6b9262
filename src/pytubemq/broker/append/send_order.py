"""The order of one producer's batches when one of them is refused for now.

The invariant: if a producer counts its refusals, no batch is stored that it sent without knowledge of an earlier one
which was refused for now or expired; so a batch that it sends again is never stored behind later messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.core.refusal import Refusal
from pytubemq.errors import Code
from pytubemq.model.limits import MAX_CLIENT_ID_CHARS, MAX_ORDERED_PRODUCERS, MAX_TOPIC_CHARS
from pytubemq.wire.protocol.extensions import COUNTED_REFUSALS, EARLIER_BATCH_REFUSED

if TYPE_CHECKING:
    from pytubemq.net.server.call import Connection

_CONTEXT: Final = "send order"
_BEHIND: Final = Refusal(Code.SERVER_RECEIVE_OVERFLOW, f"{EARLIER_BATCH_REFUSED}; retry in order")


class SendOrder:
    """One batch's position among its producer's: a connection's client id and topic, and the refusals it knows of."""

    __slots__ = ("_connection", "_producer", "_seen")

    def __init__(self, connection: Connection, client_id: str, topic: str, seen: int) -> None:
        self._connection = connection
        self._producer = (client_id, topic)
        self._seen = seen

    def find_refusal(self) -> Refusal | None:
        """Return the refusal of a batch that was sent without knowledge of an earlier refusal; None if it may pass."""
        counts: dict[tuple[str, str], int] | None = self._connection.context.get(_CONTEXT)
        # Each request says how many refusals its sender knew of; one that knew of fewer was sent too early.
        return _BEHIND if counts is not None and counts.get(self._producer, 0) > self._seen else None

    def record_refusal(self, code: Code) -> None:
        """Record that the batch is refused. A final refusal changes nothing: its messages are not sent again."""
        if code in COUNTED_REFUSALS:
            self.record_drop()

    def record_drop(self) -> None:
        """Record that the batch was not stored and that its messages will be sent again."""
        client_id, topic = producer = self._producer
        if len(client_id) > MAX_CLIENT_ID_CHARS or len(topic) > MAX_TOPIC_CHARS:
            return  # never stored anyway
        counts: dict[tuple[str, str], int] = self._connection.context.setdefault(_CONTEXT, {})
        # Taken out and put back at the end, which keeps the dict in order of use.
        count = counts.pop(producer, 0) + 1
        if len(counts) >= MAX_ORDERED_PRODUCERS:
            del counts[next(iter(counts))]  # drop the one quiet for the longest time: a count too low refuses nothing
        counts[producer] = count
