"""One Arrow batch as what has to be known to send it: whole columns where there is one, nothing for what there is not.

The invariant: a value that cannot be sent is named by row and column, and then nothing of its batch is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.errors import FormatError, MessageError
from pytubemq.model.ids import Partition
from pytubemq.model.names import check_topic
from pytubemq.spark.sink.identity import key_digest
from pytubemq.wire.text.attributes import check_msg_time, format_attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import tzinfo

    from pytubemq.spark.sink.columns import SinkColumns
    from pytubemq.spark.sink.options import SinkOptions

_US_PER_MINUTE: Final = 60_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in order; a column that is None has the same for all: what the options say, or nothing."""

    first: int
    """The number of the first one in its task."""
    bodies: Sequence[bytes]
    topics: Sequence[str] | None = None
    types: Sequence[str | None] | None = None
    times: Sequence[str | None] | None = None
    attributes: Sequence[Mapping[str, str] | None] | None = None
    keys: Sequence[bytes | None] | None = None
    partitions: Sequence[Partition | int | None] | None = None
    ids: Sequence[str] | None = None
    """Hashes of the idempotency keys."""

    def __len__(self) -> int:
        return len(self.bodies)


class RowReader:
    """Reads the batches of one task."""

    def __init__(self, columns: SinkColumns, options: SinkOptions, where: str) -> None:
        """Create the reader; `where` names the task in errors."""
        self._columns = columns
        self._zone = options.time_zone
        self._encoder = options.encoder
        self._where = where

    def read(self, batch: pa.RecordBatch, first: int) -> Rows:
        """Read the rows of a batch before which the task had `first` rows.

        Raises:
            MessageError: a value cannot be sent.
        """
        columns = self._columns
        bodies = self._bodies(batch.column(columns.body), first)
        times = self._times(batch, columns.msg_time, first)
        if self._encoder is not None:
            bodies = self._encoder.encode(bodies, self._times_ms(batch, columns.msg_time, times))
        return Rows(
            first=first,
            bodies=bodies,
            topics=self._texts(batch, columns.topic, first, "topic", check_topic, needed=True),
            types=self._texts(batch, columns.msg_type, first, "msgType", _checked_type),
            times=times,
            attributes=self._maps(batch, columns.attributes),
            keys=None if columns.key is None else _binary(batch.column(columns.key)).to_pylist(),
            partitions=self._partitions(batch, columns.partition, first),
            ids=self._ids(batch, columns.idempotency_key, first),
        )

    def fault(self, row: int, column: str, problem: str, hint: str | None = None) -> MessageError:
        """Return the error for one value."""
        return MessageError(f"row {row} of {self._where}: column {column} {problem}", hint=hint, code=400)

    def _bodies(self, column: Any, first: int) -> list[bytes]:
        binary = _binary(column)
        self._refuse_null(binary, first, "body", "filter such rows out, or coalesce them to a text")
        if len(binary) and pc.min(pc.binary_length(binary)).as_py() == 0:
            row = first + pc.index(pc.binary_length(binary), 0).as_py()
            raise self.fault(row, "body", "is empty", "a message needs at least one byte: filter such rows out")
        found: list[bytes] = binary.to_pylist()
        return found

    def _refuse_null(self, column: Any, first: int, name: str, hint: str | None = None) -> None:
        if column.null_count:
            raise self.fault(first + pc.index(pc.is_null(column), True).as_py(), name, "is null", hint)

    def _texts(
        self,
        batch: pa.RecordBatch,
        place: int | None,
        first: int,
        name: str,
        check: Callable[[str], str],
        *,
        needed: bool = False,
    ) -> list[Any] | None:
        if place is None:
            return None
        column = batch.column(place)
        if needed:
            self._refuse_null(column, first, name)
        values: list[str | None] = column.to_pylist()
        right: dict[str | None, str | None] = {None: None}
        for value in set(values) - {None}:
            try:
                right[value] = check(value or "") or None
            except MessageError as error:
                raise self.fault(
                    first + values.index(value), name, f"is {value!r}: {error.message}", error.hint
                ) from error
        return [right[value] for value in values]

    def _times(self, batch: pa.RecordBatch, place: int | None, first: int) -> list[str | None] | None:
        if place is None:
            return None
        column = batch.column(place)
        if not pa.types.is_timestamp(column.type):
            return self._texts(batch, place, first, "msgTime", _checked_time)
        zone = None if column.type.tz is None else self._zone
        times_us = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64()).to_pylist()
        found: list[str | None] = []
        for row, time_us in enumerate(times_us, first):
            try:
                found.append(None if time_us is None else _minute(time_us // _US_PER_MINUTE, zone))
            except (OverflowError, ValueError) as error:
                raise self.fault(row, "msgTime", "is not within the years 1000 to 9999") from error
        return found

    def _times_ms(
        self, batch: pa.RecordBatch, place: int | None, texts: list[str | None] | None
    ) -> list[int | None] | None:
        """Return times in ms since 1970, as exact as the column has them."""
        if place is None or texts is None:
            return None
        column = batch.column(place)
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            found: list[int | None] = pc.cast(
                column.cast(pa.timestamp("ms", "UTC"), safe=False), pa.int64()
            ).to_pylist()
            return found
        return [None if text is None else _minute_ms(text, self._zone) for text in texts]

    @staticmethod
    def _maps(batch: pa.RecordBatch, place: int | None) -> list[dict[str, str] | None] | None:
        if place is None:
            return None
        return [None if each is None else dict(each) for each in batch.column(place).to_pylist()]

    def _partitions(self, batch: pa.RecordBatch, place: int | None, first: int) -> list[Partition | int | None] | None:
        if place is None:
            return None
        values = batch.column(place).to_pylist()
        right: dict[Any, Partition | int | None] = {None: None}
        for value in set(values) - {None}:
            try:
                right[value] = value if isinstance(value, int) else _partition(value)
            except FormatError as error:
                takes = "an id, or a text as 1:demo:0 (Broker, topic, id)"
                raise self.fault(
                    first + values.index(value), "partition", f"is {value!r}", f"it takes {takes}"
                ) from error
        return [right[value] for value in values]

    def _ids(self, batch: pa.RecordBatch, place: int | None, first: int) -> list[str] | None:
        if place is None:
            return None
        column = batch.column(place)
        self._refuse_null(column, first, batch.schema.names[place], "each row needs a key in idempotent mode")
        if pa.types.is_integer(column.type):
            return [key_digest(b"%d" % each) for each in column.to_pylist()]
        return [key_digest(each) for each in _binary(column).to_pylist()]


def _binary(column: Any) -> Any:
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column
    return pc.cast(column, pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())


def _checked_type(text: str) -> str:
    format_attributes(None, msg_type=text, msg_time=None)
    return text.strip()


def _checked_time(text: str) -> str:
    return check_msg_time(text.strip()) if text.strip() else ""


def _partition(text: str) -> Partition | int:
    return int(text) if text.isascii() and text.isdigit() else Partition.parse(text)


@lru_cache(maxsize=4096)
def _minute(minute: int, zone: tzinfo | None) -> str:
    """Format a minute since 1970 as `yyyyMMddHHmm`, of a clock in `zone`; without one it is what the clock showed."""
    time = _EPOCH + timedelta(minutes=minute)
    local = time if zone is None else time.astimezone(zone)
    if local.year < 1000:
        raise ValueError(f"the year {local.year} has fewer than four digits")
    return local.strftime("%Y%m%d%H%M")


@lru_cache(maxsize=4096)
def _minute_ms(text: str, zone: tzinfo) -> int:
    """Parse `yyyyMMddHHmm` of a clock in `zone` to ms since 1970."""
    return int(datetime.strptime(text, "%Y%m%d%H%M").replace(tzinfo=zone).timestamp()) * 1000
