"""Producer ids and sequence numbers of messages, by which a Broker detects duplicates.

Everybody who reads a topic sees the producer id, epoch and sequence of its messages, and a peer may send under any id.
So what a Broker says of numbers is believed only as far as it can be true. The invariants: in each partition the
numbers of an id count up from 0, and each is given once; an id that was made here is given up as soon as it is known
that somebody else sends under it, and what has no receipt by then is numbered under a new one.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Final

from pytubemq.errors import Code, RefusedError, TubeError, refused
from pytubemq.wire.protocol.extensions import FENCED_EPOCH, FORGOTTEN_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.client.producer.messages.record_batch import RecordBatch

_log = logging.getLogger(__name__)

FOREIGN_DUPLICATE: Final = "the Broker has a message with this number that this producer never sent"
"""Text of the refusal of a duplicate that cannot be one, since its message was sent for the first time."""


class ProducerIds:
    """The source of a producer's ids: made here, given, or none, so that messages get no sequence numbers."""

    __slots__ = ("_topic", "_warned", "epoch", "is_own", "producer_id")

    def __init__(self, topic: str, producer_id: int | None = None, epoch: int = 0, *, is_own: bool = False) -> None:
        """`is_own`: the ids are made here, another for each Broker, and `producer_id` and `epoch` are not used."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.is_own = is_own
        self._topic = topic
        self._warned = False

    def warn(self, producer_id: int, reason: str) -> None:
        """Log, the first time, that somebody else uses an id that was made here."""
        if not self._warned:
            self._warned = True
            _log.warning(
                "another client sends to topic %s as producer %d, an id that this producer made for itself: %s; "
                "messages without a receipt are sent again under a new id; readers of the topic see such ids, so find "
                "out who can reach its Brokers",
                self._topic,
                producer_id,
                reason,
            )


class SequenceNumbers:
    """The sequence numbers of a producer's messages for one Broker, from 0 in each partition."""

    __slots__ = ("_ids", "_next", "epoch", "given_up", "producer_id")

    def __init__(self, producer_ids: ProducerIds) -> None:
        self._ids = producer_ids
        self.producer_id = _new_id() if producer_ids.is_own else producer_ids.producer_id
        """None if messages get no sequence numbers."""
        # An id that was made here is new, and needs no epoch but the first.
        self.epoch = 0 if producer_ids.is_own else producer_ids.epoch
        """The producer's epoch."""
        self.given_up = False
        """True if another client uses the id, so nothing more may be sent under it."""
        self._next: dict[int, int] = {}
        """The next number by Broker and partition in one integer: a `Partition`'s own hash costs more than all the
        rest."""

    @property
    def is_own(self) -> bool:
        """True if the id was made here, so nobody else may have it."""
        return self._ids.is_own

    def assign(self, batch: RecordBatch) -> None:
        """Assign sequence numbers to a batch that has none."""
        # A number stays with its messages over all tries: by that a duplicate is known.
        if self.producer_id is None or batch.sequence is not None:
            return
        key = batch.partition.broker_id << 32 | batch.partition.partition_id
        batch.sequence = following = self._next.get(key, 0)
        self._next[key] = following + batch.count

    def renew(self, batches: Iterable[RecordBatch] = ()) -> None:
        """Take a new producer id, unless it was given or was never sent; `batches` with a number get new ones, in
        order.

        Nothing may be in flight.
        """
        self.given_up = False
        if not self._ids.is_own or not self._next:
            return
        self.producer_id, self._next = _new_id(), {}
        for batch in batches:
            if batch.sequence is not None:
                # Under the new id it was never sent, so the Broker cannot have it as a duplicate.
                batch.sequence, batch.tries = None, 0
                self.assign(batch)

    def judge(self, error: TubeError, *, first: bool) -> TubeError:
        """Return the error that counts for refused messages; give up an own id if another client must have used it.

        Args:
            error: the Broker's error.
            first: True if one of them was sent for the first time.
        """
        reason = _reason(error)
        if reason is None or self.producer_id is None:
            return error
        # A given id may rightly be another client's; that is for the user to decide.
        if not self._ids.is_own:
            return _fenced_error(self.producer_id, self.epoch, error) if reason is FENCED_EPOCH else error
        if reason is FORGOTTEN_SEQUENCE and not first:
            return error  # with so many gaps in its own numbers it may be a repeat
        self.given_up = True
        self._ids.warn(self.producer_id, error.message)
        found = RefusedError(f"another client sends as producer {self.producer_id}: {error.message}")
        # It is sent again under a new id, which no other client has.
        found.retriable = True
        found.__cause__ = error
        return found


def _new_id() -> int:
    # Never 0, which means no producer. Not guessable, as readers of the topic see the ids used before.
    return secrets.randbits(62) + 1


def _reason(error: TubeError) -> str | None:
    """Return which refusal of a sequence number this is; None if it is none."""
    if not isinstance(error, RefusedError):
        return None
    if error.code == Code.FORBIDDEN:
        return next((text for text in (FENCED_EPOCH, FOREIGN_DUPLICATE) if error.message.startswith(text)), None)
    is_old = error.code == Code.BAD_REQUEST and error.message.startswith(FORGOTTEN_SEQUENCE)
    return FORGOTTEN_SEQUENCE if is_old else None


def _fenced_error(producer_id: int, epoch: int, error: TubeError) -> TubeError:
    found = refused(
        Code.FORBIDDEN,
        error.message,
        hint=f"nobody else may send as producer {producer_id}: end the other client, or find who forges the id, which "
        f"every reader of the topic sees; then number_as({producer_id}, epoch) with an epoch above {epoch} and above "
        "the newest that the partition has seen, or with another id",
    )
    found.__cause__ = error
    return found
