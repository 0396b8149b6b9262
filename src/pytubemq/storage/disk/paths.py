"""Paths of topics and partitions in a store: the only module that makes a path from a name.

The invariant: a path made here is a child of `logs`, whatever the name is and wherever it came from, so that no name
leads to a read, write or removal outside the store.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytubemq.errors import MessageError
from pytubemq.model.names import is_file_name, shown

if TYPE_CHECKING:
    from pathlib import Path

LOGS: Final = "logs"
# Journal and checkpoint records have 32 bits for it.
_MAX_PARTITION_ID: Final = 2**32 - 1
# One partition must not have two directories, hence no leading zeros.
_PARTITION: Final = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)


def is_partition_name(name: str) -> bool:
    """True if a partition's directory can have this name: its id in decimal, without leading zeros."""
    return _PARTITION.fullmatch(name) is not None and int(name) <= _MAX_PARTITION_ID


def topic_directory(root: Path, topic: str) -> Path:
    """Return the directory of a topic in the store at `root`.

    Raises:
        MessageError: 400, the name cannot be that of a directory.
    """
    _check(topic)
    return root.joinpath(LOGS, topic)


def partition_directory(root: Path, topic: str, partition_id: int) -> Path:
    """Return the directory of a partition in the store at `root`.

    Raises:
        MessageError: 400, the name cannot be that of a directory, or the id is out of range.
    """
    if not 0 <= partition_id <= _MAX_PARTITION_ID:
        raise MessageError(
            f"not a partition that can be stored: {shown(topic)}:{partition_id}", hint="check its id", code=400
        )
    _check(topic)
    return root.joinpath(LOGS, topic, str(partition_id))


def _check(topic: str) -> None:
    if not is_file_name(topic):
        raise MessageError(
            f"not a topic that can be stored: {shown(topic)}", hint="check who asks for a topic of this name", code=400
        )
