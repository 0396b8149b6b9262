"""The end of a range within a fetch whose messages have no offsets.

A fetch that began before the range's end E and ended behind it brought messages of both sides. A second fetch, which
begins at E, brings those behind E only: the *sight*. A message of the first fetch lies behind E if it is in the sight.

The invariant: a cut is exact, or there is none: messages that cannot be distinguished are an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytubemq.errors import CorruptError
from pytubemq.model.offset import OFFSET_UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.wire.batch.stored import StoredMessage


class Mark(NamedTuple):
    """The content that distinguishes a stored message: the same message gives the same mark whenever it is fetched.

    A Java Broker draws ids from its clock of nanoseconds and a counter; they may come again after 73 minutes, and are
    counted by each store for itself. So the content is compared, too.
    """

    message_id: int
    check_sum: int
    flag: int
    payload: bytes


def mark(record: StoredMessage) -> Mark:
    """Return the mark of a message."""
    return Mark(record.message_id, record.check_sum, record.flag, record.payload)


def dense(messages: int, start: int, end: int) -> bool:
    """True if a fetch over [start, end) returned a message for each entry of the index: then each offset is known."""
    return messages * OFFSET_UNIT == end - start


def cut(pack: Sequence[Mark], sight: Sequence[Mark], *, complete: bool) -> int | None:
    """Count the messages of `pack` before the offset from which `sight` was fetched.

    None if more of the sight is needed. `complete`: it reaches at least as far as the pack does.

    Raises:
        CorruptError: messages cannot be distinguished, or the Broker gave other messages the second time.
    """
    if not complete:
        return _agreeing(pack, sight)
    seen = set(sight)
    behind = [one in seen for one in pack]
    kept = behind.index(True) if True in behind else len(pack)
    tail = pack[kept:]
    if not all(behind[kept:]) or len(set(tail)) != len(tail):
        raise CorruptError(
            "a Java Broker returned indistinguishable messages: the same id, checksum and content more than once, "
            "or other messages when it was asked again",
            hint="see its log for damaged segments; a batch that ends elsewhere (maxRowsPerTrigger) may pass them",
        )
    return kept


def _agreeing(pack: Sequence[Mark], sight: Sequence[Mark]) -> int | None:
    """Find the one place of the batch from which on both are the same, as far as both go; None if it is not certain."""
    if not sight:
        return None
    places = [place for place, one in enumerate(pack) if one == sight[0]]
    if len(places) != 1:
        return None
    tail = list(pack[places[0] :])
    common = min(len(tail), len(sight))
    return places[0] if tail[:common] == list(sight[:common]) else None
