"""The handling of rows that are gone: the query fails, or the hole is logged, or it is also written to a file.

The invariant: a hole's file has a name that follows from the hole alone, so a batch that is planned or read again
writes the same file again, and what is written is counted once.
"""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.model.offset import messages_between
from pytubemq.spark.source.options import OnDataLoss
from pytubemq.spark.source.planning.plan import Hole, data_loss

if TYPE_CHECKING:
    from pytubemq.spark.source.options import SourceOptions

logger = logging.getLogger(__name__)

SUFFIX: Final = ".json"


def lose(hole: Hole, options: SourceOptions) -> None:
    """Take note of a hole.

    Raises:
        OffsetMovedError: data loss is an error.
        ConfigError: the hole cannot be written down.
    """
    if options.on_data_loss is OnDataLoss.FAIL:
        raise data_loss(hole, hole.there)
    rows = messages_between(hole.start, hole.end)
    logger.warning(
        "data loss in partition %s: %d rows, %d to %d, are gone; the Broker has %d to %d",
        hole.partition, rows, hole.start, hole.end, hole.there.min_offset, hole.there.max_offset,
    )  # fmt: skip
    if options.on_data_loss is OnDataLoss.REPORT and options.loss_directory is not None:
        write_hole(hole, options.loss_directory)


def hole_json(hole: Hole) -> dict[str, Any]:
    """Format a hole as in its file."""
    return {
        "topic": hole.partition.topic,
        "brokerId": hole.partition.broker_id,
        "partition": hole.partition.partition_id,
        "fromOffset": hole.start,
        "toOffset": hole.end,
        "rows": messages_between(hole.start, hole.end),
        "firstKept": hole.there.min_offset,
        "lastKept": hole.there.max_offset,
        "foundAt": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds"),
    }


def write_hole(hole: Hole, directory: str) -> None:
    """Write a hole's file: JSON, one line.

    Raises:
        ConfigError: the directory cannot be written to.
    """
    from pyarrow import fs

    partition = hole.partition
    name = f"{partition.topic}-{partition.broker_id}-{partition.partition_id}-{hole.start}-{hole.end}{SUFFIX}"
    try:
        files, root = fs.FileSystem.from_uri(directory)
        files.create_dir(root, recursive=True)
        # a name that readers of the directory skip until it is whole
        with files.open_output_stream(f"{root}/.{name}.part") as out:
            out.write((json.dumps(hole_json(hole)) + "\n").encode())
        files.move(f"{root}/.{name}.part", f"{root}/{name}")
    except (OSError, ValueError) as error:
        place = directory.rpartition("@")[2]  # a URI may have a secret before it
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(
            f"rows are gone, and that cannot be written to lossDirectory {place}: {why}",
            hint="give an absolute path or a URI of a directory that driver and executors can write to",
        ) from error
