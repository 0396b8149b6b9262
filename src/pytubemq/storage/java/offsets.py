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
    from collections.abc import Sequence
    from pathlib import Path


class _Part(msgspec.Struct, rename="camel"):
    topic: str
    part_id: int
    lst_offset: int


class _Group(msgspec.Struct, rename="camel"):
    part_offset_info: dict[str, _Part] = {}


class _File(msgspec.Struct, rename="camel"):
    group_offset_stg_info: dict[str, _Group] = {}


def read_offsets(path: Path) -> dict[tuple[str, str, int], int]:
    """The confirmed Java offset of each group, topic and partition id.

    Raises:
        FormatError: the file is not what a Java Broker writes. OSError: it cannot be read.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is no file of group offsets: {error}") from error
    return {
        (group, part.topic, part.part_id): part.lst_offset
        for group, parts in file.group_offset_stg_info.items()
        for part in parts.part_offset_info.values()
    }


def own_offset(java_offset: int, index_offsets: Sequence[int]) -> int:
    """Where a group stands in its partition's own count.

    Args:
        index_offsets: of the partition's messages, ascending.
    """
    return to_offset(bisect_left(index_offsets, java_offset))
