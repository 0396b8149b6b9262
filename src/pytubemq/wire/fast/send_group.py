"""Messages of several requests, by the partition that they are for.

The invariant: every message is in one group, in the order in which they came; where messages are numbered, the
sequences of a group follow each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SendGroup:
    """Messages of one partition; if they are numbered, their sequences follow each other."""

    __slots__ = ("following", "numbers", "partition_id", "payloads", "sequence")

    def __init__(self, partition_id: int, sequence: int) -> None:
        self.partition_id = partition_id
        self.sequence = self.following = sequence
        """The first message's sequence, and the one after the last."""
        # By these the responses find their requests again: a run's messages may be in many groups.
        self.numbers: list[int] = []
        """The positions in the run."""
        self.payloads: list[bytes] = []


class SendGroups:
    """The groups of a run, as its messages are read."""

    __slots__ = ("_count", "_latest", "found", "numbered")

    def __init__(self, *, numbered: bool) -> None:
        self.numbered = numbered
        self.found: list[SendGroup] = []
        # Only the latest of a partition can be gone on with: messages keep the order in which they came.
        self._latest: dict[int, SendGroup] = {}
        self._count = 0

    def add(self, partition_id: int, sequence: int, payload: bytes) -> None:
        """Take the next message."""
        group = self._latest.get(partition_id)
        # A gap begins a group, since a record batch has only its first message's sequence.
        if group is None or (self.numbered and group.following != sequence):
            group = self._new(partition_id, sequence)
        group.following += 1
        group.numbers.append(self._count)
        group.payloads.append(payload)
        self._count += 1

    def add_row(self, partition_id: int, sequence: int, payloads: Sequence[bytes]) -> None:
        """Take messages of one partition whose sequences, if they are numbered, follow on that of the first."""
        group = self._latest.get(partition_id)
        if group is None or (self.numbered and group.following != sequence):
            group = self._new(partition_id, sequence)
        group.following += len(payloads)
        # Three calls, however many messages there are: a run of one partition is the usual case.
        group.numbers.extend(range(self._count, self._count + len(payloads)))
        group.payloads.extend(payloads)
        self._count += len(payloads)

    def _new(self, partition_id: int, sequence: int) -> SendGroup:
        group = self._latest[partition_id] = SendGroup(partition_id, sequence)
        self.found.append(group)
        return group
