"""What was lost to damage and is passed over by readers, for whoever asks what is wrong with a store.

The invariant: the fences of a partition do not overlap, and a message is counted as lost once, however often its damage
is met.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from pytubemq.observe.story import PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.storage.record import Fence

_MAX_FENCES: Final = 10_000
"""Of one store; those met beyond it are counted and not listed. Readers do not depend on the list."""


class Fences:
    """Known fences by partition; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[tuple[str, int], list[Fence]] = {}
        self._listed = 0

    def add(self, fence: Fence) -> int:
        """Take note of a fence; returns how many of its messages were not known to be lost."""
        with self._lock:
            known = self._known.setdefault((fence.topic, fence.partition_id), [])
            pieces = _without(fence, known)
            room = max(0, _MAX_FENCES - self._listed)
            known += pieces[:room]
            known.sort(key=lambda item: item.from_ordinal)
            self._listed += len(pieces[:room])
            for piece in pieces:
                PARTITION.tell(
                    "fenced", topic=piece.topic, partition=piece.partition_id, offset=piece.from_offset,
                    to=piece.to_offset, reason=piece.reason.name.lower(),
                )  # fmt: skip
            return sum(piece.messages for piece in pieces)

    def all(self) -> list[Fence]:
        """All of them, by topic, partition and offset."""
        with self._lock:
            return [fence for _, known in sorted(self._known.items()) for fence in known]

    def forget(self, topic: str) -> None:
        """A topic is gone."""
        with self._lock:
            for key in [key for key in self._known if key[0] == topic]:
                self._listed -= len(self._known.pop(key))

    def forget_before(self, topic: str, partition_id: int, ordinal: int) -> None:
        """The messages before `ordinal` are gone, lost or not."""
        with self._lock:
            known = self._known.get((topic, partition_id))
            if known is not None:
                kept = [fence for fence in known if fence.to_ordinal > ordinal]
                self._listed -= len(known) - len(kept)
                self._known[topic, partition_id] = kept


def _without(fence: Fence, known: Iterable[Fence]) -> list[Fence]:
    """The parts of `fence` that no known one covers."""
    pieces: list[Fence] = []
    ordinal = fence.from_ordinal
    for other in known:
        if other.to_ordinal <= ordinal or other.from_ordinal >= fence.to_ordinal:
            continue
        if other.from_ordinal > ordinal:
            pieces.append(fence._replace(from_ordinal=ordinal, to_ordinal=other.from_ordinal))
        ordinal = other.to_ordinal
    if ordinal < fence.to_ordinal:
        pieces.append(fence._replace(from_ordinal=ordinal))
    return pieces
