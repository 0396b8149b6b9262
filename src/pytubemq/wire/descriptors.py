"""The descriptor set, built from the message classes; the classes are the one truth.

The invariant: the original's messages keep their names and numbers and share one namespace without a package, as its
`.proto` files do. Everything lives in a pool of its own, so it never collides with a user's protobuf classes.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from pytubemq.wire.messages import broker, extension, master, rpc
from pytubemq.wire.schema import Kind, Label, proto_name, specs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

FILES: Final[dict[str, ModuleType]] = {
    "RPC.proto": rpc,
    "MasterService.proto": master,
    "BrokerService.proto": broker,
    "Extension.proto": extension,
}

_Field = descriptor_pb2.FieldDescriptorProto
_TYPES: Final = {
    Kind.BOOL: _Field.TYPE_BOOL,
    Kind.BYTES: _Field.TYPE_BYTES,
    Kind.I32: _Field.TYPE_INT32,
    Kind.I64: _Field.TYPE_INT64,
    Kind.STR: _Field.TYPE_STRING,
}
_LABELS: Final = {
    Label.REQUIRED: _Field.LABEL_REQUIRED,
    Label.OPTIONAL: _Field.LABEL_OPTIONAL,
    Label.REPEATED: _Field.LABEL_REPEATED,
}


def message_classes(module: ModuleType) -> list[type]:
    """The messages a module declares, in the order they stand there."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "__dataclass_fields__")
    ]


def all_classes() -> list[type]:
    """Every message of the protocol, ours included."""
    return [cls for module in FILES.values() for cls in message_classes(module)]


def file_descriptor(classes: Sequence[type], *, max_number: int | None = None) -> descriptor_pb2.FileDescriptorProto:
    """One file that declares `classes` and the enums they use.

    Args:
        classes: message classes; what they refer to must be among them.
        max_number: leave out fields with higher numbers, which gives the messages as a peer without extensions has
            them.
    """
    file = descriptor_pb2.FileDescriptorProto(name="pytubemq/wire.proto", syntax="proto2")
    enums: dict[str, type[Enum]] = {}
    for cls in classes:
        declared = file.message_type.add(name=cls.__name__)
        for attribute, spec in specs(cls).items():
            if max_number is not None and spec.number > max_number:
                continue
            field = declared.field.add(name=proto_name(attribute), number=spec.number, label=_LABELS[spec.label])
            if isinstance(spec.kind, Kind):
                field.type = _TYPES[spec.kind]
            elif issubclass(spec.kind, Enum):
                field.type, field.type_name = _Field.TYPE_ENUM, f".{spec.kind.__name__}"
                enums[spec.kind.__name__] = spec.kind
            else:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{spec.kind.__name__}"
            if spec.packed:
                field.options.packed = True
    for name, enum in enums.items():
        values = file.enum_type.add(name=name)
        for member in enum:
            values.value.add(name=member.name, number=member.value)
    return file


def build(classes: Sequence[type], *, max_number: int | None = None) -> dict[type, Any]:
    """The protobuf class of each message class, in a pool of their own."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file_descriptor(classes, max_number=max_number).SerializeToString())
    return {cls: _class_for(pool.FindMessageTypeByName(cls.__name__)) for cls in classes}


def _class_for(descriptor: Any) -> Any:
    # GetMessageClass came with protobuf 4.22; a user's Spark cluster may bring an older 4.
    get = getattr(message_factory, "GetMessageClass", None)
    if get is None:
        factory: Any = message_factory.MessageFactory()
        get = factory.GetPrototype
    return get(descriptor)
