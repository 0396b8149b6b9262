"""The dead letters of a pipeline, where they are Parquet files: listed, shown, chosen, dropped; without Spark.

The invariants: a file is replaced whole, and no file and no directory is ever taken away, since a batch that a sink has
is known by its directory; a dead letter is identified by all that it holds, and of those that are alike as many
leave the file as were taken, never more; memory is bounded, however many there are.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pytubemq.errors import ConfigError, NotFoundError
from pytubemq.model.suggest import suggest
from pytubemq.pipelines.report.json_rows import plain, plain_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


SUFFIX: Final = ".parquet"
FOREIGN: Final = "foreign"
"""Reason and stage of what lies among the dead letters and is none."""
BATCH_ROWS: Final = 10_000
"""Read at once where the bytes of the records are left out."""
READ_ROWS: Final = 500
"""Read at once, bytes and all."""
MOST_TAKEN: Final = 100_000
"""Dead letters taken at once; `Taken.more` says if there are others."""
MOST_TAKEN_BYTES: Final = 256 << 20
"""And so many bytes of records, though always one dead letter."""

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of dead letters: those that meet all that is set."""

    reason: str | None = None
    """A reason, or the beginning of one up to a dot: `decode` means `decode.json` too."""
    most: int | None = None

    def has(self, reason: str | None) -> bool:
        """True if the choice includes a reason."""
        return self.reason is None or reason == self.reason or (reason or "").startswith(f"{self.reason}.")


@dataclass(frozen=True, slots=True)
class Taken:
    """Dead letters that were chosen: their rows, and where they lie."""

    rows: Any
    """A `pyarrow.Table` of the columns of a dead letter."""
    keys: dict[str, frozenset[Key]]
    """By file: what a dead letter holds, as a hash, and how many that are alike stay in the file."""
    more: bool = False
    """True if more are meant than are taken at once."""


class Room:
    """The room that is left in one take of dead letters."""

    def __init__(self, choice: Choice) -> None:
        self._most = choice.most
        self._rows = 0
        self._bytes = 0
        self.full = False
        """True if something was refused."""

    def take(self, raw: bytes | None) -> bool:
        """Take one more and return True if there is room; after a first refusal there is none."""
        size = len(raw or b"")
        most = MOST_TAKEN if self._most is None else min(self._most, MOST_TAKEN)
        if self._rows >= most or (self._rows and self._bytes + size > MOST_TAKEN_BYTES):
            self.full = True
        if self.full:
            return False
        self._rows += 1
        self._bytes += size
        return True

    @property
    def more(self) -> bool:
        """True if more are chosen than were taken."""
        return self.full and self._rows != self._most


class DeadLetterFiles:
    """The Parquet files of a pipeline's dead letters."""

    def __init__(self, location: str) -> None:
        """Open the directory at `location`, a path or a URI.

        Raises:
            ConfigError: the place cannot be reached.
        """
        self.location = location
        try:
            if "://" in location:
                self._fs, self._root = fs.FileSystem.from_uri(location)
            else:
                self._fs, self._root = fs.LocalFileSystem(), location
        except (OSError, ValueError) as error:
            raise ConfigError(f"the dead letters in {location} cannot be reached: {error}") from error

    def files(self) -> list[str]:
        """List all data files, in the order of their names."""
        found = self._fs.get_file_info(fs.FileSelector(self._root, recursive=True, allow_not_found=True))
        names = [info.path for info in found if info.is_file and info.path.endswith(SUFFIX)]
        return sorted(name for name in names if not _is_hidden(name.removeprefix(self._root)))

    def by_reason(self) -> list[dict[str, Any]]:
        """Count the reasons, the most frequent first."""
        return by_reason(self.summaries())

    def summaries(self) -> Iterator[dict[str, Any]]:
        """Yield what is listed of each, without its bytes."""
        named = ["reason", "stage", "topic", "timestamp", "detail"]
        return (row for name in self.files() for batch in self._read(name, named) for row in batch.to_pylist())

    def check_settling(self, choice: Choice) -> None:
        """Accept every choice: all of them can be taken out of files."""

    def take(self, choice: Choice) -> Taken:
        """Read the chosen dead letters, up to the bounds of what is taken at once."""
        room, tables, keys = Room(choice), [], {}
        for name in self.files():
            taken: set[str] = set()
            staying: Counter[str] = Counter()
            for batch in self._read(name):
                mask = []
                for row, digest in _digests(batch):
                    mask.append(choice.has(row["reason"]) and room.take(row["raw"]))
                    taken |= {digest} if mask[-1] else set()
                    staying[digest] += not mask[-1]
                if any(mask):
                    tables.append(pa.Table.from_batches([batch]).filter(pa.array(mask, pa.bool_())))
            if taken:
                keys[name] = frozenset((digest, staying[digest]) for digest in taken)
            if room.full:
                break
        return Taken(pa.concat_tables(tables) if tables else pa.table({}), keys, room.more)

    def drop(self, keys: Mapping[str, Collection[Key]]) -> int:
        """Take dead letters out of their files; returns how many there were. Done twice it is done once."""
        dropped = 0
        for name, gone in keys.items():
            if self._fs.get_file_info(name).type == fs.FileType.NotFound:
                continue
            there = Counter(digest for batch in self._read(name) for _, digest in _digests(batch))
            surplus = Counter({digest: there[digest] - staying for digest, staying in gone})
            surplus = +surplus  # only what is more than should stay
            if surplus:
                dropped += surplus.total()
                self._rewrite(name, surplus)
        return dropped

    def _rewrite(self, name: str, surplus: Counter[str]) -> None:
        """Write the file anew without so many of these; it stays, even with no row."""
        folder, _, base = name.rpartition("/")
        beside = f"{folder}/_{base}.kept"
        writer = None
        try:
            for batch in self._read(name):
                mask = []
                for _, digest in _digests(batch):
                    mask.append(surplus[digest] <= 0)
                    surplus[digest] -= 1
                writer = writer or pq.ParquetWriter(beside, batch.schema, filesystem=self._fs)
                writer.write_batch(batch.filter(pa.array(mask, pa.bool_())))
        finally:
            if writer is not None:
                writer.close()
        self._fs.move(beside, name)
        self._forget_checksum(folder, base)

    def _forget_checksum(self, folder: str, base: str) -> None:
        """Remove the checksum that Hadoop's local file system keeps of a file: it refuses a file that has changed."""
        beside = f"{folder}/.{base}.crc"
        if self._fs.get_file_info(beside).type != fs.FileType.NotFound:
            self._fs.delete_file(beside)

    def _read(self, name: str, columns: list[str] | None = None) -> Iterator[Any]:
        rows = READ_ROWS if columns is None else BATCH_ROWS
        with self._fs.open_input_file(name) as file:
            for batch in pq.ParquetFile(file, coerce_int96_timestamp_unit="us").iter_batches(rows, columns=columns):
                yield _in_utc(batch)


class DeadLetters(Protocol):
    """Dead letters, wherever they lie."""

    location: str

    def by_reason(self) -> list[dict[str, Any]]:
        """Count the reasons, the most frequent first."""
        ...

    def take(self, choice: Choice) -> Taken:
        """Read the chosen dead letters."""
        ...

    def check_settling(self, choice: Choice) -> None:
        """Refuse a choice that could not be dropped."""
        ...

    def drop(self, keys: Mapping[str, Collection[Key]]) -> int:
        """Take them away; returns how many there were. Done twice it is done once."""
        ...


@dataclass(frozen=True, slots=True)
class Dropped:
    """The result of dropping dead letters."""

    meant: int
    dropped: int
    """As many as were still there."""


def drop_dead_letters(letters: DeadLetters, choice: Choice) -> Dropped:
    """Drop the chosen dead letters for good, however many there are.

    Raises:
        ConfigError: this choice cannot be dropped from where they are.
    """
    letters.check_settling(choice)
    taken = letters.take(choice)
    meant = taken.rows.num_rows
    dropped = letters.drop(dict(taken.keys))
    while taken.more:
        taken = letters.take(replace(choice, most=None if choice.most is None else choice.most - meant))
        meant += taken.rows.num_rows
        dropped += letters.drop(dict(taken.keys))
    return Dropped(meant, dropped)


def check_reason(letters: DeadLetters, taken: Taken, reason: str | None) -> None:
    """Refuse a reason by which nothing was taken.

    Raises:
        NotFoundError: no dead letter has it; naming the reasons that there are.
    """
    if taken.rows.num_rows or reason is None:
        return
    there = [str(row["reason"]) for row in letters.by_reason()]
    suggestion = suggest(reason, there)
    known = f"there are: {', '.join(there)}" if there else "there are no dead letters"
    raise NotFoundError(
        f"there is no dead letter of the reason {reason}",
        hint=f"did you mean {suggestion}? {known}" if suggestion else known,
    )


def by_reason(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count the reasons, the most frequent first, with the first and last time, the topics, and an example."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = found.setdefault(
            str(row["reason"]),
            {"reason": row["reason"], "stage": row["stage"], "records": 0, "first": None, "last": None,
             "topics": set(), "example": row["detail"]},
        )  # fmt: skip
        entry["records"] += 1
        entry["topics"].add(row["topic"] or "")
        if (at := row["timestamp"]) is not None:
            entry["first"] = at if entry["first"] is None else min(at, entry["first"])
            entry["last"] = at if entry["last"] is None else max(at, entry["last"])
    ordered = sorted(found.values(), key=lambda entry: (-entry["records"], str(entry["reason"])))
    return [{name: plain(sorted(v) if name == "topics" else v) for name, v in entry.items()} for entry in ordered]


def dead_letter_rows(taken: Taken) -> list[dict[str, Any]]:
    """Format dead letters for people and for JSON, each with an id."""
    return [{"id": _id(row), **row} for row in plain_rows(taken.rows)]


def _in_utc(rows: Any) -> Any:
    """Mark times as UTC: Spark's oldest form of times in Parquet has no zone."""
    at = rows.schema.get_field_index("timestamp")
    return rows if at < 0 else rows.set_column(at, "timestamp", rows.column(at).cast(pa.timestamp("us", tz="UTC")))


def _id(row: dict[str, Any]) -> str:
    place = f"{row.get('brokerId')}:{row.get('topic')}:{row.get('partition')}:{row.get('offset')}"
    return place if row.get("record") is None else f"{place}#{row['record']}"


def _digests(batch: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield rows, each with a hash of all that it holds: a place alone does not identify a record without an offset."""
    for row in batch.to_pylist():
        at = row.get("timestamp")
        held = row | {"timestamp": at.isoformat() if isinstance(at, datetime) else at}
        yield row, hashlib.sha256(repr(sorted(held.items())).encode()).hexdigest()[:32]


def _is_hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in name.split("/"))
