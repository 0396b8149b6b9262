"""Examination and repair of a damaged metadata file.

The invariants: an examination changes nothing, because it reads copies; a repair sets every file aside before it writes
a new one, and keeps only records whose checksum is right.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq.errors import NotFoundError, StorageError
from pytubemq.storage.metastore.port import Metadata
from pytubemq.storage.metastore.reading import all_records
from pytubemq.storage.metastore.seal import read_seal, seal_path
from pytubemq.storage.metastore.sqlite import COUNT_OF_RECORDS, SqliteMetaStore, kept_log, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.model.records import Record
    from pytubemq.storage.metastore.checks import Totals

_LOG: Final = "-wal"
_NO_TOPICS: Final = (
    "the record of consumer group ",
    "the record of consume ",
    "the record of cluster",
    "the record of account ",
    "the record of permission ",
    "the record of user token ",
    "the record of audit ",
    COUNT_OF_RECORDS,
)
"""Beginnings of the names of damaged records that concern no topic."""


@dataclass(frozen=True, slots=True)
class Examination:
    """The sound records of a metadata file, the names of damaged ones, and the number of changes lost at its end."""

    metadata: Metadata
    damaged: tuple[str, ...]
    lost_changes: int

    @property
    def is_sound(self) -> bool:
        """True if nothing is damaged or missing."""
        return not self.damaged and not self.lost_changes

    @property
    def lacks_topics(self) -> bool:
        """True if records of topics, their placements or Brokers may be lost; `cluster adopt` takes those over."""
        return bool(self.lost_changes) or any(not name.startswith(_NO_TOPICS) for name in self.damaged)

    def records(self) -> list[Record]:
        """Return the sound records."""
        return all_records(self.metadata)


def examine(path: Path) -> Examination:
    """Read the metadata file `path` record by record.

    Raises:
        NotFoundError: there is neither the file nor anything beside it.
        StorageError: it cannot be read at all.
    """
    sealed = read_seal(seal_path(path))
    if not any(file.exists() for file in _files(path)):
        raise NotFoundError(f"no metadata in {path.parent}", hint="give a Master's data directory")
    # Nothing is left to read; the seal still shows how much there was.
    if not path.exists() and not kept_log(path).exists() and not path.with_name(path.name + _LOG).exists():
        lost = 0 if sealed is None else sealed.generation
        return Examination(Metadata(), (f"the whole file, because {path.name} is missing",), lost)
    found = _read_copy(path, sealed)
    metadata, dangling = _without_dangling(found.metadata)
    return replace(found, metadata=metadata, damaged=(*found.damaged, *dangling))


def repair(path: Path, found: Examination) -> list[Path]:
    """Set the files of `path` aside and write a new one with the sound records; return where the old files are.

    Raises:
        StorageError: it cannot be written; the old files are aside.
    """
    # First, or the store would open the damaged files and refuse them.
    aside = _put_aside(path)
    store = SqliteMetaStore(path)
    try:
        store.apply(found.records(), [])
    finally:
        store.close()
    return aside


def _read_copy(path: Path, sealed: Totals | None) -> Examination:
    # SQLite changes a file and its log by opening them.
    with tempfile.TemporaryDirectory(prefix="pytubemq-metadata-") as scratch:
        copy = Path(scratch) / "meta.db"
        if path.exists():
            shutil.copyfile(path, copy)
        # The kept copy is the log as the crash left it; the one beside it may have lost frames since.
        log = kept_log(path) if kept_log(path).exists() else path.with_name(path.name + _LOG)
        if log.exists():
            shutil.copyfile(log, copy.with_name(copy.name + _LOG))
        try:
            with closing(sqlite3.connect(copy, isolation_level=None)) as db:
                reading = read_records(db, tolerant=True)
                problems = _structure(db)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StorageError(
                f"nothing of {path} can be read: {error}",
                hint=f"put the files meta.* of {path.parent} elsewhere and start the Master: it begins without "
                "records, and `pytubemq cluster adopt` takes over what the Brokers hold",
            ) from error
    damaged = [*reading.damaged, *(problem for problem in problems if problem != "ok")]
    # Where a record is damaged, number and sum differ anyway and show nothing new.
    if not reading.damaged and sealed is not None and sealed.generation == reading.totals.generation != 0:
        damaged += [] if sealed == reading.totals else [COUNT_OF_RECORDS]
    behind = 0 if sealed is None else max(0, sealed.generation - reading.totals.generation)
    return Examination(reading.metadata, tuple(damaged), behind)


def _structure(db: sqlite3.Connection) -> list[str]:
    """Return the problems that SQLite finds in the file."""
    try:
        found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(5)")]
        return [line for text in found for line in text.splitlines() if not line.startswith("***")]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return [f"the structure of the file: {error}"]


def _without_dangling(metadata: Metadata) -> tuple[Metadata, list[str]]:
    """Leave out placements whose topic or Broker is damaged: the Brokers that hold them report them again."""
    topics = {topic.topic for topic in metadata.topics}
    brokers = {broker.broker_id for broker in metadata.brokers}
    kept = [place for place in metadata.deploys if place.topic in topics and place.broker_id in brokers]
    dropped = [place for place in metadata.deploys if place not in kept]
    names = [
        f"the placement of {place.topic} on broker {place.broker_id}, because the record of one of them is damaged"
        for place in dropped
    ]
    return replace(metadata, deploys=kept), names


def _files(path: Path) -> Iterator[Path]:
    yield path
    for ending in (_LOG, "-shm"):
        yield path.with_name(path.name + ending)
    yield kept_log(path)
    yield seal_path(path)


def _put_aside(path: Path) -> list[Path]:
    # Never over what an earlier repair has kept.
    number = 1
    while (directory := path.with_name(f"damaged-{number}")).exists():
        number += 1
    directory.mkdir(mode=0o700)
    aside = []
    for file in _files(path):
        if file.exists():
            aside.append(file.rename(directory / file.name))
    return aside
