"""Counts of repeated fields, checked on a message's bytes before protobuf allocates memory for them.

The invariant: protobuf never sees a message in which a repeated field has more values than its class declares (`most`);
values are counted over all parts of the message together. Otherwise an empty part of two bytes would take a hundred
bytes of memory.

Nearly all messages pass without a scan of their fields: they are too short for too many values, or contain too few
bytes that could be a value's tag.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from pytubemq.errors import FormatError
from pytubemq.model.limits import MAX_WIRE_FOREIGN_FIELDS
from pytubemq.wire.protobuf.schema import FieldSpec, Kind, Label, proto_name, specs
from pytubemq.wire.protobuf.varint import MAX_ONE_BYTE, decode_varint

_LAST_SHORT_NUMBER: Final = 15
"""Fields up to this number have tags of one byte, unless the writer used a longer form."""
# Of packed numbers, all bytes but each one's last have the top bit: without them one byte is left for each value.
_HIGH_BYTES: Final = bytes(range(0x80, 0x100))
_VARINT, _FIXED64, _DELIMITED, _GROUP, _GROUP_END, _FIXED32 = range(6)
_MAX_GROUPS: Final = 100
"""Depth of nested groups, which this protocol does not use; protobuf has the same limit."""


class _Counter(NamedTuple):
    """A repeated field of the message or of one of its parts."""

    name: str
    most: int
    tags: tuple[bytes, ...]
    """The byte sequences with which its tag may begin."""
    numeric: bool
    """True if one occurrence may hold many values, packed."""


class _Field(NamedTuple):
    """A field to visit when values are counted."""

    counter: int | None
    """The index of its counter; None unless the field is repeated."""
    part: _Level | None
    """The fields of its nested message; None if nothing in it is counted."""


_Level = dict[int, _Field]


class Counts:
    """The limits of one message class."""

    __slots__ = ("_counters", "_level", "_most_fields", "least_bytes")

    def __init__(self, cls: type) -> None:
        self._counters: list[_Counter] = []
        self._level = self._read_class(cls, "")
        # Bounds the time as well: what a scan visits follows from the class, not from the length of the message.
        self._most_fields = sum(counter.most for counter in self._counters) + MAX_WIRE_FOREIGN_FIELDS
        # A packed number takes a byte, a text or a part two: tag and length.
        self.least_bytes = min(
            ((1 if counter.numeric else 2) * (counter.most + 1) for counter in self._counters), default=None
        )
        """Size of the shortest message that may have too many values; None if the class has no repeated field."""

    def check(self, data: bytes) -> None:
        """Check that a message keeps the limits.

        Raises:
            FormatError: it has too many values of a field, or too many fields, or is malformed.
        """
        # Every value begins with one of these bytes or is one byte of a packed list, so what has too few of them cannot
        # have too many values. Counting bytes in C costs far less than a scan.
        for counter in self._counters:
            if counter.numeric:
                if len(data) > counter.most:
                    break
            elif len(data) > 2 * counter.most and sum(map(data.count, counter.tags)) > counter.most:
                break
        else:
            return
        try:
            _Scan(self._counters, self._most_fields).read(data, 0, len(data), self._level)
        except (IndexError, ValueError) as error:
            raise FormatError("a field is cut off or malformed") from error

    def _read_class(self, cls: type, path: str) -> _Level:
        level: _Level = {}
        if not hasattr(cls, "__dataclass_fields__"):  # an enum
            return level
        for attribute, spec in specs(cls).items():
            name = path + proto_name(attribute)
            counter = None
            if spec.label is Label.REPEATED:
                counter = len(self._counters)
                self._counters.append(_counter(name, spec))
            part = {} if isinstance(spec.kind, Kind) else self._read_class(spec.kind, f"{name}.")
            # Also what is not repeated but has repeated fields: protobuf merges a part that comes twice, so its values
            # add up.
            if counter is not None or part:
                level[spec.number] = _Field(counter, part or None)
        return level


@cache
def counts_of(cls: type) -> Counts:
    """Return the limits of a message class."""
    return Counts(cls)


def _counter(name: str, spec: FieldSpec) -> _Counter:
    if spec.most is None:
        # When the class is first used, so any test that decodes it finds a bound that was forgotten.
        raise TypeError(f"{name} is repeated and has no bound")
    numeric = spec.kind in (Kind.BOOL, Kind.I32, Kind.I64)
    first = (spec.number << 3 | (_VARINT if numeric else _DELIMITED)) & MAX_ONE_BYTE
    # Any tag may be written with padding, so the short form and the padded one both count.
    tags = (bytes((first | 0x80,)),)
    return _Counter(name, spec.most, tags if spec.number > _LAST_SHORT_NUMBER else (bytes((first,)), *tags), numeric)


class _Scan:
    """One pass over the fields of a message."""

    __slots__ = ("_counters", "_fields_left", "_left")

    def __init__(self, counters: list[_Counter], most_fields: int) -> None:
        self._counters = counters
        self._left = [counter.most for counter in counters]
        self._fields_left = most_fields

    def read(self, data: bytes, at: int, end: int, level: _Level) -> None:
        """Count the values in a part of the message. Raises FormatError; IndexError, ValueError: it is malformed."""
        fields_left, groups, get = self._fields_left, 0, level.get
        while at < end:
            fields_left -= 1
            if fields_left < 0:
                raise FormatError("it has too many fields")
            key, at = (data[at], at + 1) if data[at] <= MAX_ONE_BYTE else decode_varint(data, at)
            wire_type, start = key & 7, at
            if wire_type == _DELIMITED:
                size, start = (data[at], at + 1) if data[at] <= MAX_ONE_BYTE else decode_varint(data, at)
                at = start + size
            else:
                groups, at = _skip(data, at, wire_type, groups)
            if at > end:
                raise IndexError
            # Fields inside a group are the group's; no message of ours has one, so all of it is unknown to protobuf.
            field = get(key >> 3)
            if field is None or groups:
                continue
            if field.counter is not None:
                self._count(field.counter, wire_type, data, start, at)
            if field.part is not None and wire_type == _DELIMITED:
                # As deep as the classes are nested, whatever the message says: only parts that they declare are
                # entered.
                self._fields_left = fields_left
                self.read(data, start, at, field.part)
                fields_left = self._fields_left
        if groups:
            raise IndexError
        self._fields_left = fields_left

    def _count(self, index: int, wire_type: int, data: bytes, start: int, stop: int) -> None:
        counter = self._counters[index]
        if wire_type == _DELIMITED:
            values = len(data[start:stop].translate(None, _HIGH_BYTES)) if counter.numeric else 1
        else:
            # A field of the wrong wire type is an unknown one to protobuf, not a value.
            values = 1 if counter.numeric and wire_type == _VARINT else 0
        self._left[index] -= values
        if self._left[index] < 0:
            raise FormatError(f"it has more than {counter.most} {counter.name}")


def _skip(data: bytes, at: int, wire_type: int, groups: int) -> tuple[int, int]:
    """Skip a field that is not delimited; return how many groups are open behind it, and where it ends."""
    if wire_type == _VARINT:
        return groups, at + 1 if data[at] <= MAX_ONE_BYTE else decode_varint(data, at)[1]
    if wire_type == _FIXED32:
        return groups, at + 4
    if wire_type == _FIXED64:
        return groups, at + 8
    # 6 and 7 are no wire types; they end here as a depth beyond all bounds.
    groups += {_GROUP: 1, _GROUP_END: -1}.get(wire_type, _MAX_GROUPS + 1)
    if not 0 <= groups <= _MAX_GROUPS:
        raise IndexError
    return groups, at
