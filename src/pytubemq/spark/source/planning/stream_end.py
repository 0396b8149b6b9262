"""The offsets at which a stream stops advancing.

The invariant: an end that is known stays; only a time to which no message has come yet is asked for again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.spark.source.planning.resolve import check_named, resolve
from pytubemq.spark.source.positions import AtOffset, AtTime, Edge, Positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.ids import Partition
    from pytubemq.spark.source.planning.plan import Ends, Offsets
    from pytubemq.spark.source.planning.resolve import Finder


class Ending:
    """The end of a stream, partition by partition, as it becomes known."""

    def __init__(self, positions: Positions, finder: Finder, now_ms: int) -> None:
        self._positions = positions
        self._finder = finder
        self._now_ms = now_ms
        self._known: Offsets = {}
        self._asked = False

    def offsets(self, ends: Mapping[Partition, Ends]) -> Offsets:
        """Return the ends known so far; a partition without one may be read as far as it goes.

        Raises:
            ConfigError: a partition or topic that is named does not exist; a Broker cannot say.
        """
        new = {partition: there for partition, there in ends.items() if str(partition) not in self._known}
        if not self._asked:
            self._asked = True
            check_named(self._positions, ends)
        else:
            for partition in [one for one in new if self._was_nowhere(one)]:
                self._known[str(partition)] = new.pop(partition).min_offset
        if new:
            found = resolve(self._positions, new, self._finder, now_ms=self._now_ms)
            self._known.update({key: offset for key, offset in found.items() if key not in map(str, found.open)})
        return self._known

    def _was_nowhere(self, partition: Partition) -> bool:
        """True if a partition found later has its end before its first message: the end was set by what was there."""
        place = self._positions.of(partition)
        return place is Edge.LATEST or not isinstance(place, (AtOffset, AtTime, Edge))
