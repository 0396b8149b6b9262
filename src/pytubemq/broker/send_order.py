"""Keeps the batches of one producer in order when one of them is refused for now.

The invariant: of a producer that counts its refusals, no batch is taken that was sent without knowledge of an earlier
one which was refused for now or dropped for its age; so what it sends again never lands behind later messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.broker.submission import Refusal
from pytubemq.errors import Code
from pytubemq.model.limits import MAX_CLIENT_ID_CHARS, MAX_ORDERED_PRODUCERS, MAX_TOPIC_CHARS
from pytubemq.wire.extensions import COUNTED_REFUSALS, EARLIER_BATCH_REFUSED

if TYPE_CHECKING:
    from pytubemq.net.server_connection import ServerConnection

_CONTEXT: Final = "send order"
_BEHIND: Final = Refusal(Code.SERVER_RECEIVE_OVERFLOW, f"{EARLIER_BATCH_REFUSED}; send again in order")


class SendOrder:
    """One batch's place among its producer's: a connection's client id and topic, and the refusals it knows of."""

    __slots__ = ("_connection", "_producer", "_seen")

    def __init__(self, connection: ServerConnection, client_id: str, topic: str, seen: int) -> None:
        self._connection = connection
        self._producer = (client_id, topic)
        self._seen = seen

    def broken(self) -> Refusal | None:
        """Why the batch may not be taken: one before it was not, and its producer did not know."""
        counts: dict[tuple[str, str], int] | None = self._connection.context.get(_CONTEXT)
        return _BEHIND if counts is not None and counts.get(self._producer, 0) > self._seen else None

    def refused(self, code: Code) -> None:
        """The batch is answered with a refusal; one for good changes nothing, its messages do not come again."""
        if code in COUNTED_REFUSALS:
            self.dropped()

    def dropped(self) -> None:
        """The batch was not taken and its messages will come again."""
        client_id, topic = producer = self._producer
        if len(client_id) > MAX_CLIENT_ID_CHARS or len(topic) > MAX_TOPIC_CHARS:
            return  # never taken anyway
        counts: dict[tuple[str, str], int] = self._connection.context.setdefault(_CONTEXT, {})
        count = counts.pop(producer, 0) + 1
        if len(counts) >= MAX_ORDERED_PRODUCERS:
            del counts[next(iter(counts))]  # forgetting the longest quiet one: a count too low refuses nothing
        counts[producer] = count
