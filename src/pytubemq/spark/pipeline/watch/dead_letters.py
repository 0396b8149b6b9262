"""The dead letters of a pipeline, where they are Parquet files: listed, shown, chosen, dropped; without Spark.

The invariants: a file is replaced whole, and no file and no directory is ever taken away, since a batch that a sink has
is known by its directory; a dead letter is told from others by where its record stood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pytubemq.errors import ConfigError, NotFoundError
from pytubemq.spark.pipeline.spec.model import DeadLetter, SinkFormat
from pytubemq.spark.pipeline.spec.secrets import resolve
from pytubemq.spark.pipeline.watch.plain import plain, plain_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pytubemq.spark.pipeline.spec.model import Pipeline

DEFAULT: Final = "dead_letter"
"""Below the state, for a pipeline that says nothing of dead letters."""
BATCH_ROWS: Final = 10_000
_PLACE: Final = ("topic", "brokerId", "partition", "offset", "record", "reason")

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters are meant; those that meet all that is set."""

    reason: str | None = None
    """A reason, or the beginning of one up to a dot: `decode` means `decode.json` too."""
    most: int | None = None

    def has(self, reason: str | None) -> bool:
        """Whether a reason is meant."""
        return self.reason is None or reason == self.reason or (reason or "").startswith(f"{self.reason}.")


@dataclass(frozen=True, slots=True)
class Taken:
    """Dead letters that were chosen: their rows, and where they lie."""

    rows: Any
    """A `pyarrow.Table` of the columns of a dead letter."""
    keys: dict[str, frozenset[Key]]
    """By file."""


class DeadLetterFiles:
    """The Parquet files of a pipeline's dead letters."""

    def __init__(self, location: str) -> None:
        """`location`: a path or a URI.

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
        """All data files, in the order of their names."""
        found = self._fs.get_file_info(fs.FileSelector(self._root, recursive=True, allow_not_found=True))
        names = [info.path for info in found if info.is_file and info.path.endswith(".parquet")]
        return sorted(name for name in names if not _is_hidden(name.removeprefix(self._root)))

    def by_reason(self) -> list[dict[str, Any]]:
        """Reasons, the most frequent first."""
        named = ["reason", "stage", "topic", "timestamp", "detail"]
        return by_reason(row for _, batch in self._batches() for row in batch.select(named).to_pylist())

    def check_settling(self, choice: Choice) -> None:
        """Every choice can be taken out of files."""

    def take(self, choice: Choice) -> Taken:
        """The dead letters that are meant."""
        tables, keys, count = [], {}, 0
        for name in self.files():
            table = self._read(name)
            table = table.filter(pa.array([choice.has(reason) for reason in table["reason"].to_pylist()], pa.bool_()))
            if choice.most is not None:
                table = table.slice(0, choice.most - count)
            if table.num_rows:
                keys[name] = frozenset(_keys(table))
                tables.append(table)
                count += table.num_rows
            if count == choice.most:
                break
        return Taken(pa.concat_tables(tables) if tables else pa.table({}), keys)

    def drop(self, keys: Mapping[str, Collection[Key]]) -> int:
        """Take dead letters out of their files; returns how many there were. Done twice it is done once."""
        dropped = 0
        for name, gone in keys.items():
            if self._fs.get_file_info(name).type == fs.FileType.NotFound:
                continue
            table = self._read(name)
            keep = pa.array([key not in gone for key in _keys(table)], pa.bool_())
            kept = table.filter(keep)
            if kept.num_rows == table.num_rows:
                continue
            dropped += table.num_rows - kept.num_rows
            folder, _, base = name.rpartition("/")
            beside = f"{folder}/_{base}.kept"
            pq.write_table(kept, beside, filesystem=self._fs)
            self._fs.move(beside, name)
            self._forget_checksum(folder, base)
        return dropped

    def _forget_checksum(self, folder: str, base: str) -> None:
        """Hadoop's local file system keeps one beside each file, and refuses a file that has changed."""
        beside = f"{folder}/.{base}.crc"
        if self._fs.get_file_info(beside).type != fs.FileType.NotFound:
            self._fs.delete_file(beside)

    def _read(self, name: str) -> Any:
        table = pq.read_table(name, filesystem=self._fs, partitioning=None, coerce_int96_timestamp_unit="us")
        return _in_utc(table)

    def _batches(self) -> Iterator[tuple[str, Any]]:
        for name in self.files():
            with self._fs.open_input_file(name) as file:
                for batch in pq.ParquetFile(file, coerce_int96_timestamp_unit="us").iter_batches(BATCH_ROWS):
                    yield name, _in_utc(batch)


class DeadLetters(Protocol):
    """Dead letters, wherever they lie."""

    location: str

    def by_reason(self) -> list[dict[str, Any]]:
        """Reasons, the most frequent first."""
        ...

    def take(self, choice: Choice) -> Taken:
        """Those that are meant."""
        ...

    def check_settling(self, choice: Choice) -> None:
        """Refuse a choice that could not be dropped."""
        ...

    def drop(self, keys: Mapping[str, Collection[Key]]) -> int:
        """Take them away; returns how many there were. Done twice it is done once."""
        ...


def dead_letters_of(pipeline: Pipeline) -> DeadLetters:
    """Those of a pipeline.

    Raises:
        ConfigError: they lie where they are not read from here.
        NotFoundError: there are none yet.
    """
    said = pipeline.dead_letter or DeadLetter()
    if said.format is SinkFormat.TUBEMQ and said.topic is not None:
        from pytubemq.spark.pipeline.watch.dead_letter_topic import topic_of

        master = said.master or pipeline.source.master
        return topic_of(master=resolve(master or ""), topic=resolve(said.topic), state=pipeline.state)
    if said.format is not SinkFormat.PARQUET:
        where = said.table or said.path or said.url
        raise ConfigError(
            f"the dead letters of {pipeline.name} go to {said.format.value} ({where}), which is not read here",
            hint="read them with that system's own tools",
        )
    location = resolve(said.path) if said.path else f"{pipeline.state}/{DEFAULT}"
    files = DeadLetterFiles(location)
    if not files.files():
        raise NotFoundError(f"there are no dead letters in {location}", hint="nothing was rejected so far")
    return files


def by_reason(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reasons, the most frequent first: how many, when the first and the last, of which topics, and an example."""
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


def rows_of(taken: Taken) -> list[dict[str, Any]]:
    """Dead letters for people and for JSON, each with an id."""
    return [{"id": _id(row), **row} for row in plain_rows(taken.rows)]


def _in_utc(rows: Any) -> Any:
    """Spark's oldest form of times in Parquet says no zone; it is UTC."""
    at = rows.schema.get_field_index("timestamp")
    return rows if at < 0 else rows.set_column(at, "timestamp", rows.column(at).cast(pa.timestamp("us", tz="UTC")))


def _id(row: dict[str, Any]) -> str:
    place = f"{row.get('brokerId')}:{row.get('topic')}:{row.get('partition')}:{row.get('offset')}"
    return place if row.get("record") is None else f"{place}#{row['record']}"


def _keys(table: Any) -> list[Key]:
    columns = [table[name].to_pylist() if name in table.column_names else [None] * table.num_rows for name in _PLACE]
    return list(zip(*columns, strict=True))


def _is_hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in name.split("/"))
