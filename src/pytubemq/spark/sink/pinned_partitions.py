"""The partitions over which a stream's batches are divided, kept beside its checkpoint so that a replay uses the same.

A topic may get partitions while a query runs, or while it is down with a batch half written. The invariant: a batch
that may have been tried is divided over the partitions that its first try saw, as long as they are all there; the next
one that certainly was not takes the new ones.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pytubemq.errors import ConfigError, FormatError
from pytubemq.model.ids import Partition

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger(__name__)

Pins = tuple[tuple[int, tuple[Partition, ...]], ...]
"""Lists of partitions with the first batch that each is for, rising."""
_FILE: Final = "tubemq-sink.json"
_KEPT: Final = 2
"""Older lists are for batches that are done."""


def partitions_of(batch: int, pins: Pins) -> tuple[Partition, ...]:
    """Return the partitions of a batch; () if nothing is pinned."""
    found: tuple[Partition, ...] = ()
    for first, partitions in pins:
        if first <= batch or not found:
            found = partitions
    return found


def next_pins(known: Pins, current: tuple[Partition, ...], committed: int) -> Pins:
    """Return the lists that hold from now on.

    Args:
        known: what was kept; () for a new query.
        current: the topic's partitions as they are now.
        committed: the last batch that Spark has committed, -1 for none: the one after it may have been tried.
    """
    if not known:
        return ((0, current),)
    if known[-1][1] == current:
        return known
    gone = not set(partitions_of(committed + 1, known)) <= set(current)
    first = committed + 1 if gone else committed + 2
    return (*(pin for pin in known if pin[0] < first), (first, current))[-_KEPT:]


def pinned(location: str, topic: str, current: tuple[Partition, ...]) -> Pins:
    """Look up and keep the lists of a query's topic.

    Args:
        location: the query's checkpoint, a path or a URI.
        topic: its name.
        current: its partitions now.

    Raises:
        ConfigError: the checkpoint cannot be read or written from here. Where it lies in a kind of store that Arrow
            does not know, nothing is kept, which is logged.
    """
    from pyarrow import fs

    files, root = fs.LocalFileSystem(), location
    if urlsplit(location).scheme:
        try:
            files, root = fs.FileSystem.from_uri(location)
        except (OSError, ValueError) as error:
            _log.warning(
                "the topic's partitions cannot be kept beside the checkpoint %s (%s): add none to topic %s while a "
                "batch of this query is unfinished",
                location,
                error,
                topic,
            )
            return ((0, current),)
    try:
        path = f"{root.rstrip('/')}/{_FILE}"
        kept = _read(files, path)
        known = _parsed(kept.get(topic, []))
        pins = known if known and known[-1][1] == current else next_pins(known, current, _committed(files, root))
        if pins != known:
            kept[topic] = [[first, [str(one) for one in partitions]] for first, partitions in pins]
            files.create_dir(root, recursive=True)
            with files.open_output_stream(f"{path}.new") as stream:
                stream.write(json.dumps(kept, indent=1).encode())
            files.move(f"{path}.new", path)
    except (OSError, ValueError, TypeError, KeyError, FormatError) as error:
        raise ConfigError(
            f"the sink stores the topic's partitions beside the checkpoint, in {location}/{_FILE}: {error}",
            hint="check that the driver's Python can read and write there (pyarrow.fs)",
        ) from error
    return pins


def _read(files: Any, path: str) -> dict[str, Any]:
    from pyarrow import fs

    if files.get_file_info(path).type == fs.FileType.NotFound:
        return {}
    with files.open_input_stream(path) as stream:
        found: dict[str, Any] = json.loads(stream.read())
    return found


def _parsed(entries: Sequence[Any]) -> Pins:
    return tuple((int(first), tuple(Partition.parse(one) for one in names)) for first, names in entries)


def _committed(files: Any, root: str) -> int:
    from pyarrow import fs

    found = files.get_file_info(fs.FileSelector(f"{root}/commits", allow_not_found=True))
    return max((int(each.base_name) for each in found if each.base_name.isdigit()), default=-1)
