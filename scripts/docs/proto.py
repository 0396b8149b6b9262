"""The protocol as `.proto` text, written from the message classes for peers and readers in other languages.

The files under `proto/` are this text: `scripts/docs/write` writes them, a test compares them.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from pytubemq.wire.protobuf.schema import FieldSpec, Kind, proto_name, specs
from pytubemq.wire.serialization.descriptors import FILES, message_classes

if TYPE_CHECKING:
    from types import ModuleType

_FIRST_OF_OURS: Final = 1000
_IMPORTS: Final = {"Extension.proto": ("BrokerService.proto",)}


def render(name: str) -> str:
    """The text of one file.

    Args:
        name: a key of `descriptors.FILES`, as in "RPC.proto".
    """
    module = FILES[name]
    classes = message_classes(module)
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Written from the message classes by scripts/docs/write; change those instead.",
        "//",
        *[f"// {line}".rstrip() for line in _first_paragraph(module)],
        f"// Fields from {_FIRST_OF_OURS} up are extensions: peers that do not know them skip them."
        if name != "Extension.proto"
        else "// Every message here is an extension, sent only to a peer that has shown the capability for it.",
        "",
        'syntax = "proto2";',
        *[line for imported in _IMPORTS.get(name, ()) for line in ("", f'import "{imported}";')],
    ]
    for enum in _enums(classes):
        lines += ["", f"enum {enum.__name__} {{", *[f"  {item.name} = {item.value};" for item in enum], "}"]
    for cls in classes:
        lines += ["", *_message(cls, ours=name == "Extension.proto")]
    return "\n".join(lines) + "\n"


def _first_paragraph(module: ModuleType) -> list[str]:
    return (module.__doc__ or "").strip().split("\n\n")[0].splitlines()


def _enums(classes: list[type]) -> list[type[Enum]]:
    kinds = [spec.kind for cls in classes for spec in specs(cls).values()]
    found = [kind for kind in kinds if not isinstance(kind, Kind) and issubclass(kind, Enum)]
    return list(dict.fromkeys(found))


def _message(cls: type, *, ours: bool) -> list[str]:
    text = (cls.__doc__ or "").strip()
    # a dataclass without a docstring gets its signature as one
    about = [] if text.startswith(f"{cls.__name__}(") else [f"// {line.strip()}".rstrip() for line in text.splitlines()]
    fields = [_field(attribute, spec, ours=ours) for attribute, spec in specs(cls).items()]
    return [*about, f"message {cls.__name__} {{", *fields, "}"]


def _field(attribute: str, spec: FieldSpec, *, ours: bool) -> str:
    kind = spec.kind.value if isinstance(spec.kind, Kind) else spec.kind.__name__
    note = "  // extension" if spec.number >= _FIRST_OF_OURS and not ours else ""
    return f"  {spec.label.value} {kind} {proto_name(attribute)} = {spec.number};{note}"
