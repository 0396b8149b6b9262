"""Declaration of a protobuf message as a typed Python class.

A message is a frozen, slotted dataclass whose fields carry their protobuf number, label and kind; the field's protobuf
name is the attribute's name in camelCase. The classes are the one truth: the descriptor set that protobuf works with is
built from them at import (`serialization.descriptors`), and the files under `proto/` are written from them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final, TypeVar, dataclass_transform

T = TypeVar("T")


# No others: the protocol has neither floats, fixed-size or unsigned numbers nor maps.
class Kind(Enum):
    """The scalar kinds the protocol uses; the value is the `.proto` keyword."""

    BOOL = "bool"
    BYTES = "bytes"
    I32 = "int32"
    I64 = "int64"
    STR = "string"


BOOL: Final = Kind.BOOL
BYTES: Final = Kind.BYTES
I32: Final = Kind.I32
I64: Final = Kind.I64
STR: Final = Kind.STR


class Label(Enum):
    """The proto2 labels; the value is the keyword."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field: `kind` is a scalar kind, another message class or an enum class.

    `most` is how many values of a repeated field a whole message may have, in all its parts together (see `counts`).
    """

    number: int
    label: Label
    kind: Kind | type
    most: int | None = None


def required(number: int, kind: Kind | type, *, secret: bool = False) -> Any:
    """Declare a proto2 `required` field: always on the wire, also when it equals the default.

    The `repr` of a message leaves out what is `secret`, so that no log line and no error can have it.
    """
    # `int`, since the numbers of extensions are members of an enum.
    spec = FieldSpec(int(number), Label.REQUIRED, kind)
    return dataclasses.field(repr=not secret, metadata={"spec": spec})


# `default` stands at each field since type checkers look there for whether an argument may be left out.
def optional(number: int, kind: Kind | type, *, default: None, secret: bool = False) -> Any:
    """Declare a proto2 `optional` field; None means absent, which is not the same as 0 or empty. `secret` as above."""
    spec = FieldSpec(int(number), Label.OPTIONAL, kind)
    return dataclasses.field(default=default, repr=not secret, metadata={"spec": spec})


# `most` has no default: a repeated field without a bound takes what memory a peer likes (`serialization.counts`).
def repeated(number: int, kind: Kind | type, *, most: int, default: tuple[()]) -> Any:
    """Declare a `repeated` field, a tuple here, of at most `most` values in one message."""
    spec = FieldSpec(int(number), Label.REPEATED, kind, most)
    return dataclasses.field(default=default, metadata={"spec": spec})


# So that type checkers know a message's fields as arguments of its class.
@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(required, optional, repeated))
def message(cls: type[T]) -> type[T]:
    """Declare a protobuf message."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


def specs(cls: type) -> dict[str, FieldSpec]:
    """Return the fields of a message class by attribute name, in the order of their numbers."""
    found = {field.name: field.metadata["spec"] for field in dataclasses.fields(cls)}
    # As protobuf writes them, and as the `.proto` files have them.
    return dict(sorted(found.items(), key=lambda item: item[1].number))


def proto_name(attribute: str) -> str:
    """Convert an attribute's name to protobuf's: `err_code` -> `errCode`."""
    head, *rest = attribute.split("_")
    # Not `capitalize`, which would make the rest of a part lower-case.
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


class Status(IntEnum):
    """The values of `ResponseHeader.status`."""

    SUCCESS = 0
    ERROR = 1
    FATAL = 2
