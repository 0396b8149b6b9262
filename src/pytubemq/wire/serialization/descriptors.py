"""The descriptor set, built from the message classes; the classes are the one truth.

The invariant: the original's messages keep their names and numbers and share one namespace without a package, as its
`.proto` files do. Everything lives in a pool of its own, so it never collides with a user's protobuf classes.

The set is written out as the bytes of a `FileDescriptorProto` instead of through protobuf's own classes for it:
loading those takes longer than all the rest of `wire`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pool, message_factory

from pytubemq.wire.protobuf.schema import FieldSpec, Kind, Label, proto_name, specs
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.messages import broker, extension, master, rpc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

FILES: Final[dict[str, ModuleType]] = {
    "RPC.proto": rpc,
    "MasterService.proto": master,
    "BrokerService.proto": broker,
    "Extension.proto": extension,
}

# Numbers of protobuf's descriptor.proto.
_TYPES: Final = {Kind.I64: 3, Kind.I32: 5, Kind.BOOL: 8, Kind.STR: 9, Kind.BYTES: 12}
_MESSAGE_TYPE: Final = 11
_ENUM_TYPE: Final = 14
_LABELS: Final = {Label.OPTIONAL: 1, Label.REQUIRED: 2, Label.REPEATED: 3}


def message_classes(module: ModuleType) -> list[type]:
    """Return the messages a module declares, in the order of their definition."""
    return [
        value
        for value in vars(module).values()
        # A module also has the classes that it imports from another one; each is declared once.
        if isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "__dataclass_fields__")
    ]


def all_classes() -> list[type]:
    """Return every message of the protocol, ours included."""
    return [cls for module in FILES.values() for cls in message_classes(module)]


def file_descriptor(classes: Sequence[type], *, max_number: int | None = None) -> bytes:
    """Build a serialized `FileDescriptorProto` that declares `classes` and the enums they use.

    Args:
        classes: message classes; what they refer to must be among them.
        max_number: leave out fields with higher numbers, which gives the messages as a peer without extensions has
            them.
    """
    enums: dict[str, type[Enum]] = {}
    messages = []
    for cls in classes:
        fields = [_text(1, cls.__name__)]
        for attribute, spec in specs(cls).items():
            # Extensions have numbers from 1000 up, so a bound below gives the messages that Java, C++ and Go have.
            if max_number is None or spec.number <= max_number:
                fields.append(_text(2, _field(attribute, spec)))
            if not isinstance(spec.kind, Kind) and issubclass(spec.kind, Enum):
                # By name, as several fields may use one enum.
                enums[spec.kind.__name__] = spec.kind
        messages.append(_text(4, b"".join(fields)))
    declared = [_text(5, _enum(name, enum)) for name, enum in enums.items()]
    # One file for all four, so that messages may refer to each other without imports.
    return b"".join([_text(1, "pytubemq/wire.proto"), *messages, *declared, _text(12, "proto2")])


def _field(attribute: str, spec: FieldSpec) -> bytes:
    # Fields of `FieldDescriptorProto`: 1 the name, 3 the number, 4 the label, 5 the type, 6 the name of the type.
    name = _text(1, proto_name(attribute))
    number, label = _number(3, spec.number), _number(4, _LABELS[spec.label])
    if isinstance(spec.kind, Kind):
        return name + number + label + _number(5, _TYPES[spec.kind])
    # A full name begins with a dot: there is no package to look it up in.
    kind = _ENUM_TYPE if issubclass(spec.kind, Enum) else _MESSAGE_TYPE
    return name + number + label + _number(5, kind) + _text(6, f".{spec.kind.__name__}")


def _enum(name: str, enum: type[Enum]) -> bytes:
    # Fields of `EnumDescriptorProto` and `EnumValueDescriptorProto`.
    values = [_text(2, _text(1, member.name) + _number(2, member.value)) for member in enum]
    return _text(1, name) + b"".join(values)


def _text(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value)


def build(classes: Sequence[type], *, max_number: int | None = None) -> dict[type, Any]:
    """Build the protobuf class of each message class, in a pool of their own."""
    # Not the default pool: a user's own classes from the original's `.proto` files have the same names.
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file_descriptor(classes, max_number=max_number))
    return {cls: _class_for(pool.FindMessageTypeByName(cls.__name__)) for cls in classes}


def _class_for(descriptor: Any) -> Any:
    # GetMessageClass came with protobuf 4.22; a user's Spark cluster may bring an older 4.
    get = getattr(message_factory, "GetMessageClass", None)
    if get is None:
        factory: Any = message_factory.MessageFactory()
        get = factory.GetPrototype
    return get(descriptor)
