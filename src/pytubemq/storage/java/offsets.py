"""Group offsets of a Java Broker, and what they mean in a partition of its own.

A Java offset is a place in the index that all partitions of a store share, so a partition's own messages below it have
to be counted; here every partition has an index of its own, and an offset counts nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

from pytubemq.errors import FormatError
from pytubemq.model.offset import to_offset

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


# The original writes more fields; those that are not named here are ignored.
class _Part(msgspec.Struct, rename="camel"):
    topic: str
    part_id: int
    lst_offset: int


class _Group(msgspec.Struct, rename="camel"):
    part_offset_info: dict[str, _Part] = {}


class _File(msgspec.Struct, rename="camel"):
    group_offset_stg_info: dict[str, _Group] = {}


def read_offsets(path: Path) -> dict[tuple[str, str, int], int]:
    """Return the confirmed Java offset of each group, topic and partition id.

    Raises:
        FormatError: the file is not what a Java Broker writes. OSError: it cannot be read.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is not a file of group offsets: {error}") from error
    return {
        (group, part.topic, part.part_id): part.lst_offset
        for group, parts in file.group_offset_stg_info.items()
        for part in parts.part_offset_info.values()
    }


class OwnOffsets:
    """The places of groups in one partition, found while its messages go by, so that none has to be remembered.

    Args:
        wanted: the groups' offsets as the Java Broker has them.
    """

    def __init__(self, wanted: Iterable[int]) -> None:
        self._wanted = sorted(set(wanted))
        self._found: list[int] = []
        """Messages before each wanted offset, as far as they are passed."""
        self._messages = 0

    def passes(self, index_offset: int) -> None:
        """Count the next message of the partition, at this place of the shared index."""
        # An offset may be that of a sibling partition's message: the group then goes on with the next one of this.
        while len(self._found) < len(self._wanted) and self._wanted[len(self._found)] <= index_offset:
            self._found.append(self._messages)
        self._messages += 1

    def own(self, java_offset: int) -> int:
        """Return a group's offset in the partition's own count, once all messages were counted."""
        at = bisect_left(self._wanted, java_offset)
        return to_offset(self._found[at] if at < len(self._found) else self._messages)
