"""`inlong-msg`: messages taken apart into records, a portion at a time.

The invariant: a portion is bounded by bytes, not by what the messages say; a message is in one portion.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.decode.columns import Column, Type
from pytubemq.decode.inlong.attributes import milliseconds_in_us, predefined_values, stream_of, time_us
from pytubemq.decode.inlong.group import Bounds, Group, InLongError
from pytubemq.decode.inlong.protobuf import parse_protobuf
from pytubemq.decode.inlong.versions import parse, version_of
from pytubemq.decode.records import Records
from pytubemq.decode.rejection import Rejection
from pytubemq.model.limits import MAX_RECORD_ATTRIBUTE_BYTES, MAX_REPEATED_ATTRIBUTE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytubemq.decode.format_options import OptionValues

PORTION_BYTES: Final = 16 * 1024 * 1024
"""Bytes of records, after decompression, that are decoded together; one message may have more."""
MAX_LEADING_CHANGES: Final = 1_000
"""Changes of the number of predefined fields from group to group of a message: each begins a portion, which takes a
millisecond or two.
"""
REASON: Final = "decode.inlong-msg"
_TEXT: Final[Any] = pa.string()
_TIME: Final[Any] = pa.timestamp("us", "UTC")
_PAIRS: Final[Any] = pa.map_(_TEXT, _TEXT)
_KIND: Final = ("version", "msgEnType")
"""Attributes of a message that give its form: 1 is protobuf, 2 (and none) is versions 0 to 4."""


class InLongWrapper:
    """Takes InLongMsg apart.

    `positional`: the format inside has columns by position, so that predefined fields can lead. `single`: the messages
    are records that were taken out before, with their attributes beside them.
    """

    def __init__(self, values: OptionValues, *, positional: bool, single: bool = False) -> None:
        self._wrap = values.text("wrap")
        self._decompress = values.text("decompress")
        self._time_column = values.text("timeColumn").strip()
        self._attributes_column = values.text("attributesColumn").strip()
        self._predefined = positional and values.flag("retainPredefinedField")
        self._must_tell = values.flag("requireAttributes")
        self._zone = values.text("timeZone")
        self._single = single
        self._bounds = Bounds(values.count("maxMessageBytes"), values.count("maxRecords"), MAX_RECORD_ATTRIBUTE_BYTES)
        columns: list[Column] = []
        if self._time_column:
            columns.append(Column(self._time_column, Type("timestamp")))
        if self._attributes_column:
            text = Type("string")
            columns.append(Column(self._attributes_column, Type("map", key=text, element=text)))
        self.columns: tuple[Column, ...] = tuple(columns)
        self.needs: tuple[str, ...] = ("body", "attributes")

    def records(self, batch: Any, first_row: int) -> Iterator[Records]:
        """Yield the records of a batch's messages, in bounded portions; rows are counted from `first_row`."""
        attributes = _attributes_of(batch)
        portion = _Portion(self)
        for at, body in enumerate(batch.column("body").to_pylist()):
            row = first_row + at
            try:
                groups = self._groups(body, attributes[at] if attributes is not None else {})
            except InLongError as error:
                portion.rejections.append(Rejection(row, None, REASON, str(error), body))
                continue
            if not portion.takes(groups):
                yield portion.records()
                portion = _Portion(self)
            for group in groups:
                if portion.leading and len(portion.leading[0]) != len(self.predefined(group)):
                    yield portion.records()
                    portion = _Portion(self)
                portion.add(row, group)
        yield portion.records()

    def predefined(self, group: Group) -> tuple[str, ...]:
        """Return the values that lead the group's records."""
        return predefined_values(group.attributes) if self._predefined else ()

    def extra(self, groups: list[Group], of_record: Any) -> list[Any]:
        """Build the wrapper's columns, a value for each record; `of_record` is the record's group."""
        columns: list[Any] = []
        if self._time_column:
            times = pa.array([self.time_us(group) for group in groups], pa.int64()).cast(_TIME)
            columns.append(pc.take(times, of_record))
        if self._attributes_column:
            pairs = pa.array([list(group.attributes.items()) for group in groups], _PAIRS)
            columns.append(pc.take(pairs, of_record))
        return columns

    def time_us(self, group: Group) -> int | None:
        """Return the time of a group's records; None where it has none, or one that no timestamp can hold."""
        if group.time_ms is not None:
            return milliseconds_in_us(group.time_ms)
        return time_us(group.attributes, self._zone)

    def _groups(self, body: bytes | None, attributes: Mapping[str, str]) -> list[Group]:
        if body is None:
            raise InLongError("there is no body")
        if self._single:
            groups = [Group(attributes, [body])]
        elif self._is_protobuf(body, attributes):
            groups = parse_protobuf(body, attributes, self._decompress, self._bounds)
        else:
            groups = parse(body, self._bounds)
        repeated = sum(len(group.records) * _size_of(group.attributes) for group in groups)
        if self._attributes_column and repeated > MAX_REPEATED_ATTRIBUTE_BYTES:
            raise InLongError(f"attributes of {repeated} bytes, when counted once for each record")
        if len(groups) > MAX_LEADING_CHANGES and self._leading_changes(groups) > MAX_LEADING_CHANGES:
            raise InLongError(
                f"the number of __addcol fields changes from group to group more than {MAX_LEADING_CHANGES} times"
            )
        if self._must_tell:
            for group in groups:
                if stream_of(group.attributes) is None:
                    raise InLongError("neither streamId nor tid among the attributes")
                if self.time_us(group) is None:
                    raise InLongError("no time that a timestamp can hold: neither dt nor t holds one")
        return groups

    def _leading_changes(self, groups: list[Group]) -> int:
        return sum(one != other for one, other in pairwise(len(self.predefined(group)) for group in groups))

    def _is_protobuf(self, body: bytes, attributes: Mapping[str, str]) -> bool:
        if self._wrap != "auto":
            return self._wrap == "pb"
        kind = next((attributes[name] for name in _KIND if name in attributes), None)
        if kind == "0":
            raise InLongError("the message's attributes say that it is not wrapped (version 0)")
        return kind == "1" and version_of(body) is None


class _Portion:
    """Groups that are decoded together: all have as many predefined fields."""

    def __init__(self, wrapper: InLongWrapper) -> None:
        self._wrapper = wrapper
        self._groups: list[Group] = []
        self._rows: list[int] = []
        self._ends: list[int] = []
        self._data: list[bytes] = []
        self._size = 0
        self.leading: list[tuple[str, ...]] = []
        self.rejections: list[Rejection] = []

    def takes(self, groups: list[Group]) -> bool:
        """True if there is room for a message."""
        self._size += sum(sum(map(len, group.records)) + 8 * len(group.records) for group in groups)
        return not self._data or self._size <= PORTION_BYTES

    def add(self, row: int, group: Group) -> None:
        """Add the records of a group of the message in a row."""
        if not group.records:
            return
        self._groups.append(group)
        self._rows.append(row)
        self.leading.append(self._wrapper.predefined(group))
        self._data += group.records
        self._ends.append(len(self._data))

    def records(self) -> Records:
        """Return all of it, as arrays."""
        if not self._data:
            nothing = pa.array([], pa.int64())
            return Records(
                pa.array([], pa.binary()),
                rows=nothing,
                extra=self._wrapper.extra([], nothing),
                attributes=[],
                groups=nothing,
                rejections=self.rejections,
            )
        of_record = self._repeated(list(range(len(self._groups))))
        fields = [pc.take(pa.array(values, _TEXT), of_record) for values in zip(*self.leading, strict=True)]
        return Records(
            pa.array(self._data, pa.binary()),
            rows=self._repeated(self._rows),
            leading=fields,
            extra=self._wrapper.extra(self._groups, of_record),
            attributes=[group.attributes for group in self._groups],
            groups=of_record,
            rejections=self.rejections,
        )

    def _repeated(self, values: list[int]) -> Any:
        runs = pa.RunEndEncodedArray.from_arrays(pa.array(self._ends, pa.int32()), pa.array(values, pa.int64()))
        return pc.run_end_decode(runs)


def _size_of(attributes: Mapping[str, str]) -> int:
    return sum(map(len, attributes)) + sum(map(len, attributes.values()))


def _attributes_of(batch: Any) -> list[dict[str, str]] | None:
    """Return the attributes of each message, if the batch has them."""
    if "attributes" not in batch.schema.names:
        return None
    return [dict(pairs) if pairs else {} for pairs in batch.column("attributes").to_pylist()]
