"""The producers' messages that a store's partitions have already: the windows of all producers.

The invariants: a window reflects exactly what was published, so what was abandoned is not a repeat when it comes again;
there are at most so many windows in all, and the ones whose producer stored nothing for longest go first, which is
counted and logged. Replaying a journal that goes back before the checkpoint gives the same windows.

A window that is known here is never changed in place: whoever prepares a block works on copies.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pytubemq.core.sequences import SequenceVerdict, Window, judge, note
from pytubemq.model.limits import MAX_WINDOW_PARTS, MAX_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.core.sequences import ProducerMark
    from pytubemq.storage.format.record import Sequences, WindowKey

_log = logging.getLogger(__name__)

# The newest ones, since a producer that missed a response sends its last messages again.
_FEW_PLACES: Final = 4
_NOTHING: Final[Mapping[WindowKey, Window]] = MappingProxyType({})


class Windows:
    """Windows by topic, partition and producer, the longest unused first. Changed under the store's lock."""

    def __init__(self) -> None:
        self.forgotten = 0
        """Windows dropped for want of room: should such a producer send something again, it is stored again."""
        self._next_logged = 1
        self._known: dict[WindowKey, Window] = {}
        self._ample: dict[WindowKey, None] = {}
        """Windows with many places, the longest unused first."""
        self._parts = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: WindowKey) -> Window | None:
        """Return a window, which the caller must not change."""
        return self._known.get(key)

    def snapshot(self, *, without: str | None = None) -> dict[WindowKey, Window]:
        """Return all windows but those of a topic that goes, the longest unused first."""
        if without is None:
            # Not a deep copy: a published window is replaced, never changed.
            return self._known.copy()
        return {key: window for key, window in self._known.items() if key[0] != without}

    def restore(self, windows: Mapping[WindowKey, Window]) -> None:
        """Begin with what a checkpoint knows."""
        for key, window in windows.items():
            self._put(key, window)

    def publish(self, sequences: Iterable[Sequences], changed: Mapping[WindowKey, Window]) -> None:
        """Make the changes of a block count from now on."""
        # In the order of the sequences: a replay has nothing else, and must come to the same order of use.
        for item in sequences:
            key = (item.topic, item.partition_id, item.producer_id)
            window = changed.get(key)
            if window is not None:
                self._put(key, window)

    def replay(self, sequences: Iterable[Sequences]) -> None:
        """Note what a block found in the journal says; what is known already changes nothing."""
        # By the way that a running store takes, so that a replay cannot come to other windows.
        noted = WindowChanges(self)
        for item in sequences:
            noted.add(item)
        self.publish(noted.sequences, noted.changed)

    def forget(self, topic: str) -> None:
        """Forget the windows of a topic that is gone."""
        for key in [key for key in self._known if key[0] == topic]:
            self._drop(key)

    def _put(self, key: WindowKey, window: Window) -> None:
        old = self._known.pop(key, None)
        if old is not None:
            self._parts -= _parts(old)
        # Put at the end of the dict, whose order is that of use: the first one is the longest unused.
        self._known[key] = window
        self._parts += _parts(window)
        self._ample.pop(key, None)
        if len(window.places) > _FEW_PLACES:
            self._ample[key] = None
        # First windows give up places, which costs a repeat its offset only; whole windows go last, as that costs the
        # recognition of repeats.
        while self._parts > MAX_WINDOW_PARTS and len(self._ample) > 1:
            self._trim(next(iter(self._ample)))
        while len(self._known) > MAX_WINDOWS or (self._parts > MAX_WINDOW_PARTS and len(self._known) > 1):
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        topic, partition_id, producer_id = key = next(iter(self._known))
        self._drop(key)
        self.forgotten += 1
        if self.forgotten >= self._next_logged:
            # Logged at the 1st, 10th, 100th …, as a table that is full stays full.
            self._next_logged *= 10
            _log.warning(
                "%d producers' sequence windows were evicted from a full table, the last of producer %d in %s:%d; "
                "what they send again now is stored again",
                self.forgotten,
                producer_id,
                topic,
                partition_id,
            )

    def _trim(self, key: WindowKey) -> None:
        """Keep few places: the window knows what it knew, and of little of it where it is."""
        del self._ample[key]
        window = self._known[key]
        self._parts -= len(window.places) - _FEW_PLACES
        self._known[key] = replace(window, places=window.places[-_FEW_PLACES:])

    def _drop(self, key: WindowKey) -> None:
        self._parts -= _parts(self._known.pop(key))
        self._ample.pop(key, None)


def _parts(window: Window) -> int:
    return len(window.runs) + len(window.places)


class WindowChanges:
    """The changes of one block to the windows; nothing of it counts before it is published."""

    def __init__(self, windows: Windows, before: Mapping[WindowKey, Window] = _NOTHING) -> None:
        """Build on `before`, the windows that a block changes which is not published yet."""
        self._windows = windows
        self._before = before
        self.changed: dict[WindowKey, Window] = {}
        self.sequences: list[Sequences] = []

    def window(self, key: WindowKey) -> Window | None:
        """Return a window with the changes noted so far."""
        window = self.changed.get(key)
        return window if window is not None else self._known(key)

    def judge(self, topic: str, partition_id: int, mark: ProducerMark, messages: int) -> list[SequenceVerdict]:
        """Judge messages that have sequences; see `core.sequences`."""
        return judge(self.window((topic, partition_id, mark.producer_id)), mark, messages)

    def add(self, item: Sequences) -> None:
        """Record that these messages are stored with the block."""
        key = (item.topic, item.partition_id, item.producer_id)
        window = self.changed.get(key)
        if window is None:
            known = self._known(key)
            # A copy for each window that this block changes, once; see the module's last line.
            window = None if known is None else known.copy()
        self.changed[key] = note(window, item.epoch, item.place)
        self.sequences.append(item)

    def _known(self, key: WindowKey) -> Window | None:
        window = self._before.get(key)
        return window if window is not None else self._windows.get(key)
