"""The identity of a message's writer: the same for each try of a task, and unique to it.

Two ways to distinguish a duplicate from a new row. *By number*: (query, batch, Spark partition, number of the row in
its task). The Broker gets the same as a producer's id (query and Spark partition), epoch (batch) and sequence, and
keeps each once. *By key*: (query, batch, hash of the row's key), which only a reader can check. The invariant: what is
derived here follows from the identity alone, so another process derives the same. `docs/design/spark-exactly-once.md`
has the argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from pytubemq.core.sequences import MAX_EPOCH, MAX_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Mapping

QUERY, BATCH, PART, SEQUENCE, KEY = "qid", "bid", "pid", "seq", "kid"
NAMES: Final = frozenset({QUERY, BATCH, PART, SEQUENCE, KEY})
"""The attributes that hold a message's identity."""
_PERSON: Final = b"pytubemq-sink"


@dataclass(frozen=True, slots=True)
class Identity:
    """One task of one batch of one query."""

    query: str
    batch: int
    part: int
    """Spark's partition id."""

    @property
    def epoch(self) -> int:
        """The producer's epoch: with the batch's first message older batches are shut out."""
        if not 0 <= self.batch <= MAX_EPOCH:
            raise OverflowError(f"batch {self.batch} is beyond {MAX_EPOCH}")
        return self.batch

    def producer_id(self) -> int:
        """Return the producer id of a query's Spark partition: 62 bits from 1 on, so two never meet by chance."""
        digest = blake2b(f"{self.query}\0{self.part}".encode(), digest_size=8, person=_PERSON).digest()
        return int.from_bytes(digest, "big") % (MAX_SEQUENCE >> 1) + 1

    def by_number(self) -> str:
        """Return the attributes up to the row's number, which follows."""
        return f"{QUERY}={short_query(self.query)},{BATCH}={self.batch},{PART}={self.part},{SEQUENCE}="

    def by_key(self) -> str:
        """Return the attributes up to the key's hash, which follows."""
        return f"{QUERY}={short_query(self.query)},{BATCH}={self.batch},{KEY}="


def short_query(query: str) -> str:
    """Shorten a query's id as messages carry it: 16 hexadecimal digits."""
    return blake2b(query.encode(), digest_size=8, person=_PERSON).hexdigest()


def key_digest(key: bytes) -> str:
    """Hash a key as messages carry it: 32 hexadecimal digits, whatever is in it."""
    return blake2b(key, digest_size=16, person=_PERSON).hexdigest()


def without_identity(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return a row's own attributes: what an earlier query put on a message that is copied is not this query's."""
    return {name: value for name, value in attributes.items() if name not in NAMES}
