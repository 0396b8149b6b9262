"""Which parts of a partition could not be read lately, for whoever asks what is wrong with it.

The invariant: a part stays listed until it was read again or is not kept any more, and no longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.storage.segment import Segment


class _Unread(NamedTuple):
    ordinal: int | None
    """The message at which reading failed; None: nothing of the segment can be read."""
    text: str


class Troubles:
    """At most one for each segment; thread-safe, as each change puts another mapping in the place of the one before."""

    __slots__ = ("_unread",)

    def __init__(self) -> None:
        self._unread: dict[Segment, _Unread] = {}

    @property
    def text(self) -> str | None:
        """What is wrong with the first of them, None if all can be read."""
        return next((unread.text for unread in self._unread.values()), None)

    def note(self, segment: Segment, ordinal: int | None, text: str) -> None:
        """A segment cannot be read, or not at a message."""
        self._unread = {**self._unread, segment: _Unread(ordinal, text)}

    def worked(self, segment: Segment, begin: int, end: int) -> None:
        """The messages from `begin` to before `end` of a segment were read."""
        unread = self._unread.get(segment)
        if unread is not None and (unread.ordinal is None or begin <= unread.ordinal < end):
            self.forget([segment])

    def forget(self, segments: Iterable[Segment]) -> None:
        """They are not kept any more, or can be read again."""
        gone = set(segments)
        if not gone.isdisjoint(self._unread):
            self._unread = {segment: unread for segment, unread in self._unread.items() if segment not in gone}
