"""Where a topic's files are: the one place that makes a path of a name.

The invariant: a path made here is a child of `logs`, whatever the name is and wherever it came from, so that nothing
outside the store is read, written or removed for a name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytubemq.errors import MessageError
from pytubemq.model.names import is_file_name, shown

if TYPE_CHECKING:
    from pathlib import Path

LOGS: Final = "logs"
_MAX_PARTITION_ID: Final = 2**32 - 1
_PARTITION: Final = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)


def is_partition_name(name: str) -> bool:
    """True if a partition's directory can have this name: its id, written in one way only."""
    return _PARTITION.fullmatch(name) is not None and int(name) <= _MAX_PARTITION_ID


def topic_directory(root: Path, topic: str) -> Path:
    """Return the directory of a topic in the store at `root`.

    Raises:
        MessageError: 400, the name is that of no child of a directory.
    """
    _check(topic)
    return root.joinpath(LOGS, topic)


def partition_directory(root: Path, topic: str, partition_id: int) -> Path:
    """Return the directory of a partition in the store at `root`.

    Raises:
        MessageError: 400, the name is that of no child of a directory, or the id is none.
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
