"""Message classes <-> protobuf bytes, for any message; `wire.fast` has shortcuts for calls that must be fast.

The invariant: whatever bytes come in, `decode` gives a whole message, every required field present, or raises
EnvelopeError with the response that the original would give.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from google.protobuf.message import DecodeError

from pytubemq.errors import EnvelopeError, FormatError
from pytubemq.wire.protobuf.schema import FieldSpec, Kind, Label, proto_name, specs
from pytubemq.wire.serialization.counts import counts_of
from pytubemq.wire.serialization.descriptors import all_classes, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")

INVALID_PROTOBUF: Final = "com.google.protobuf.InvalidProtocolBufferException"
REQUEST_PREFIX: Final = "IPC server handle request error :"

# At import, so that a class which protobuf refuses is found at once and not with the first message of its kind.
PB: Final = build(all_classes())
"""The protobuf class of each message class."""


# Made once for each class, since looking fields up by reflection for each message would cost more than the rest.
class _Binding:
    """The conversion of one class: names in two spellings, and the few fields that need more than a copy."""

    __slots__ = ("attributes", "from_pb", "names", "optionals", "pb", "read", "repeated", "strings", "to_pb", "write")

    def __init__(self, cls: type) -> None:
        fields = specs(cls)
        self.pb = PB[cls]
        self.attributes = tuple(fields)
        self.names = tuple(proto_name(attribute) for attribute in fields)
        self.read = _getter(self.names)
        self.write = _getter(self.attributes)
        self.optionals = [n for n, spec in enumerate(fields.values()) if spec.label is Label.OPTIONAL]
        self.repeated = [n for n, spec in enumerate(fields.values()) if spec.label is Label.REPEATED]
        self.strings: list[int] = []
        self.from_pb: list[tuple[int, Callable[[Any], Any]]] = []
        self.to_pb: list[tuple[int, Callable[[Any], Any]]] = []
        for index, spec in enumerate(fields.values()):
            self._convert(index, spec)

    def _convert(self, index: int, spec: FieldSpec) -> None:
        kind = spec.kind
        if isinstance(kind, Kind):
            if kind is Kind.STR:
                self.strings.append(index)
            return
        if issubclass(kind, Enum):
            # Protobuf gives the number of an enum's value.
            self.from_pb.append((index, kind))
            return
        if spec.label is Label.REPEATED:
            self.from_pb.append((index, partial(_all_from_pb, kind)))
            self.to_pb.append((index, _all_to_pb))
        else:
            self.from_pb.append((index, partial(_from_pb, kind)))
            self.to_pb.append((index, _to_pb))


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    # Of a single name it gives the value itself instead of a tuple.
    get = attrgetter(*names)
    return cast("Callable[[Any], tuple[Any, ...]]", get if len(names) > 1 else lambda item: (get(item),))


_BINDINGS: Final[dict[type, _Binding]] = {}


def _binding(cls: type) -> _Binding:
    found = _BINDINGS.get(cls)
    if found is None:
        found = _BINDINGS[cls] = _Binding(cls)
    return found


def text(value: str | bytes) -> str:
    """Return a string field's value; protobuf gives bytes for what is not UTF-8; the original replaces characters."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _texts(values: tuple[str | bytes, ...]) -> tuple[str, ...]:
    """Return a repeated string field's values."""
    if bytes in set(map(type, values)):  # asked at once, since there may be very many
        return tuple([text(item) for item in values])
    return cast("tuple[str, ...]", values)


def _to_pb(message: Any) -> Any:
    binding = _binding(type(message))
    values = binding.write(message)
    # Most messages have no parts, and their values go to protobuf as they are.
    if binding.to_pb:
        changed = list(values)
        for index, convert in binding.to_pb:
            if changed[index] is not None:
                changed[index] = convert(changed[index])
        values = tuple(changed)
    # None means absent to protobuf's constructor as well
    return binding.pb(**dict(zip(binding.names, values, strict=True)))


def _from_pb(cls: type[T], pb: Any, *, apart: Sequence[int] = ()) -> T:
    """Read the message in a protobuf object, without the values of the repeated fields of the numbers `apart`."""
    binding = _binding(cls)
    values = list(binding.read(pb))
    # Taken out before a tuple is made of it: these are the values that are too many for one turn.
    for index in apart:
        values[index] = ()
    names = binding.names
    for index in binding.optionals:
        # a value other than the default is there; only for the default protobuf must be asked
        if not values[index] and not pb.HasField(names[index]):
            values[index] = None
    for index in binding.repeated:
        values[index] = tuple(values[index])
    # Protobuf gives bytes, not text, where a proto2 string is not UTF-8; peers are not refused for that.
    for index in binding.strings:
        value = values[index]
        if value.__class__ is not str and value is not None:
            values[index] = text(value) if value.__class__ is bytes else _texts(value)
    for index, convert in binding.from_pb:
        value = values[index]
        if value is not None and (index not in binding.optionals or pb.HasField(names[index])):
            values[index] = convert(value)
        # For a part that is absent protobuf gives an empty one.
        elif value is not None:
            values[index] = None
    return cls(**dict(zip(binding.attributes, values, strict=True)))


def _all_to_pb(messages: tuple[Any, ...]) -> list[Any]:
    return [_to_pb(message) for message in messages]


def _all_from_pb(cls: type[T], items: Any) -> tuple[T, ...]:
    return tuple([_from_pb(cls, item) for item in items])


def encode(message: Any) -> bytes:
    """Encode a message (not delimited).

    Raises:
        TypeError, ValueError: a field has a value of another type, or one that does not fit.
    """
    return cast("bytes", _to_pb(message).SerializeToString())


def encode_values(cls: type, attribute: str, values: Sequence[Any]) -> bytes:
    """Encode some values of a repeated field; behind a message of the class they are more of its values.

    So a long message can be encoded in slices.
    """
    binding = _binding(cls)
    index = binding.attributes.index(attribute)
    convert = dict(binding.to_pb).get(index, list)
    # Partial: the required fields are in the message before.
    return cast("bytes", binding.pb(**{binding.names[index]: convert(values)}).SerializePartialToString())


class Values(Generic[T]):
    """The values of a repeated field of nested messages, converted when they are taken."""

    __slots__ = ("_cls", "_pb")

    def __init__(self, cls: type[T], pb: Any) -> None:
        self._cls = cls
        self._pb = pb

    def __len__(self) -> int:
        return len(self._pb)

    def slices(self, size: int) -> Iterator[tuple[T, ...]]:
        """Yield all values in order, so many at a time."""
        # So a server may serve others between two slices of a long registration.
        for at in range(0, len(self._pb), size):
            yield _all_from_pb(self._cls, self._pb[at : at + size])


def decode_apart(cls: type[T], data: bytes, attribute: str) -> tuple[T, Values[Any]]:
    """Decode as `decode`, but leave one repeated field empty and return its values beside the message.

    So a long message can be decoded in slices.

    Raises:
        EnvelopeError: as `decode`.
    """
    message, found = decode_all_apart(cls, data, (attribute,))
    return message, found[0]


def decode_all_apart(cls: type[T], data: bytes, attributes: Sequence[str]) -> tuple[T, list[Values[Any]]]:
    """Decode as `decode_apart`, for several repeated fields.

    Raises:
        EnvelopeError: as `decode`.
    """
    pb = parse(cls, PB[cls], data)
    binding = _binding(cls)
    values: list[Values[Any]] = [
        Values(cast("type", specs(cls)[name].kind), getattr(pb, proto_name(name))) for name in attributes
    ]
    try:
        return _from_pb(cls, pb, apart=[binding.attributes.index(name) for name in attributes]), values
    except UnicodeDecodeError as error:
        raise malformed(cls, error) from error


def decode(cls: type[T], data: bytes) -> T:
    """Decode the message of class `cls` in `data`; unknown fields are skipped.

    Raises:
        EnvelopeError: the bytes are no such message, or a required field is missing.
    """
    check_counts(cls, data)
    pb = PB[cls]()
    try:
        pb.MergeFromString(data)
        if not pb.IsInitialized():
            raise missing(cls, pb)
        return _from_pb(cls, pb)
    except (DecodeError, UnicodeDecodeError) as error:
        raise malformed(cls, error) from error


def parse(cls: type, pb_class: Any, body: bytes, *, counted: bool = False) -> Any:
    """Parse the protobuf object of class `pb_class`, which stands for `cls`.

    Args:
        cls: the message class.
        pb_class: protobuf's.
        body: the message.
        counted: True if its repeated fields are known to keep their bounds, or the caller reads no more than these.

    Raises:
        EnvelopeError: the bytes are no such message.
    """
    if not counted:
        check_counts(cls, body)
    pb = pb_class()
    try:
        pb.MergeFromString(body)
    except (DecodeError, UnicodeDecodeError) as error:
        raise malformed(cls, error) from error
    if not pb.IsInitialized():
        raise missing(cls, pb)
    return pb


def check_counts(cls: type, data: bytes) -> None:
    """Check that the repeated fields in a message's bytes keep their bounds.

    Raises:
        EnvelopeError: one has too many values.
    """
    # On the bytes, before protobuf: by the time it has read a message the memory is taken.
    counts = counts_of(cls)
    # Nearly every message ends here: it is too short to have too many of anything.
    if counts.least_bytes is not None and len(data) >= counts.least_bytes:
        try:
            counts.check(data)
        except FormatError as error:
            raise malformed(cls, error) from error


def missing(cls: type, pb: Any) -> EnvelopeError:
    """Return the error for a message without its required fields, in the original's words."""
    return _invalid(f"Message missing required fields: {missing_fields(cls, pb)}", cls)


def missing_fields(cls: type, pb: Any) -> str:
    """Return the required fields that a message lacks; if it has all of its own, those of its first incomplete part.

    Protobuf's own list names every field of every part, so a peer could make it larger than memory.
    """
    fields = specs(cls)
    own = [
        name
        for attribute, spec in fields.items()
        if spec.label is Label.REQUIRED and not pb.HasField(name := proto_name(attribute))
    ]
    # Its own first: a part is complete or not only within a message that is.
    if own:
        return ", ".join(own)
    for attribute, spec in fields.items():
        name = proto_name(attribute)
        if isinstance(spec.kind, Kind) or spec.kind not in PB:
            continue
        if spec.label is Label.REPEATED:
            # Ends with the first incomplete one, so the text is as long as one part's names.
            for index, part in enumerate(getattr(pb, name)):
                if not part.IsInitialized():
                    return _within(f"{name}[{index}]", missing_fields(spec.kind, part))
        elif pb.HasField(name) and not getattr(pb, name).IsInitialized():
            return _within(name, missing_fields(spec.kind, getattr(pb, name)))
    return "unknown"


def _within(path: str, names: str) -> str:
    return ", ".join(f"{path}.{name}" for name in names.split(", "))


def malformed(cls: type, error: Exception) -> EnvelopeError:
    """Return the error for bytes that are no such message."""
    return _invalid(f"not a {cls.__name__}: {error}", cls)


def _invalid(text: str, cls: type) -> EnvelopeError:
    return EnvelopeError(f"{REQUEST_PREFIX}{text}", exception_name=INVALID_PROTOBUF, fatal=True)
