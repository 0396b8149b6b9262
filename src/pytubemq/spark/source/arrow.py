"""Messages into one Arrow batch, column by column; and what all ways to a batch share.

The invariant: every batch has exactly the schema that Spark derives from the declared one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from pytubemq.spark.source.schema import spark_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from datetime import tzinfo

    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Message

_US_PER_MS = 1000


class BatchBuilder:
    """Builds the batches of one partition."""

    def __init__(self, partition: Partition, columns: Sequence[str], time_zone: tzinfo) -> None:
        self._partition = partition
        self._time_zone = time_zone
        self._columns = tuple(columns)
        self.schema: Any = to_arrow_schema(spark_schema(columns), timezone="UTC")
        """A `pyarrow.Schema`: that of every batch."""

    def build(self, messages: Sequence[Message], *, malformed: Set[int] = frozenset()) -> Any:
        """Build a `pyarrow.RecordBatch` of one row per message; those at positions in `malformed` get no attributes."""
        arrays = [self._column(name, messages, self.schema.field(name).type, malformed) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def constant(self, name: str) -> str | int:
        """Return the value of every row: `topic`, `brokerId` or `partition`."""
        partition = self._partition
        if name == "topic":
            return partition.topic
        return partition.broker_id if name == "brokerId" else partition.partition_id

    def minutes(self, texts: Sequence[str | None]) -> Any:
        """Build the column `msgTime` of these texts."""
        kind = self.schema.field("msgTime").type
        return _timestamps([minute_us(text, self._time_zone) for text in texts], kind)

    def maps(self, attributes: Sequence[Mapping[str, str] | None]) -> Any:
        """Build the column `attributes` of these; None is null."""
        kind = self.schema.field("attributes").type
        offsets: list[int | None] = [0]
        keys: list[str] = []
        values: list[str] = []
        for position, entries in enumerate(attributes):
            if entries is None:
                offsets[position] = None  # a null where a map would begin is a null instead of that map
            else:
                keys.extend(entries)
                values.extend(entries.values())
            offsets.append(len(keys))
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), pa.array(values, pa.string()), type=kind
        )

    def _column(self, name: str, messages: Sequence[Message], kind: Any, malformed: Set[int]) -> Any:
        match name:
            case "topic" | "brokerId" | "partition":
                return pa.repeat(pa.scalar(self.constant(name), kind), len(messages))
            case "offset":
                return pa.array([message.offset for message in messages], kind)
            case "messageId":
                return pa.array([message.message_id for message in messages], kind)
            case "timestamp":
                times_ms = [message.appended_at_ms for message in messages]
                return _timestamps([None if time_ms is None else time_ms * _US_PER_MS for time_ms in times_ms], kind)
            case "msgTime":
                return self.minutes([message.msg_time for message in messages])
            case "msgType":
                return pa.array([message.msg_type for message in messages], kind)
            case "attributes":
                return self.maps(
                    [None if at in malformed else message.attributes for at, message in enumerate(messages)]
                )
            case _:
                return pa.array([message.body for message in messages], kind)


def _timestamps(times_us: list[int | None], kind: Any) -> Any:
    return pa.array(times_us, pa.int64()).cast(kind)


@lru_cache(maxsize=4096)
def minute_us(text: str | None, zone: tzinfo) -> int | None:
    """Parse `yyyyMMddHHmm` of a clock in `zone` to microseconds since 1970 UTC; None for anything else, and for a time
    that is before the year 1 or after 9999 there.
    """
    if text is None or len(text) != 12 or not (text.isascii() and text.isdigit()):
        return None
    try:
        local = datetime(int(text[:4]), int(text[4:6]), int(text[6:8]), int(text[8:10]), int(text[10:12]), tzinfo=zone)
        return int(local.astimezone(UTC).timestamp()) * 1_000_000
    except (ValueError, OverflowError):
        return None
