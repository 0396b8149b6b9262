"""docs/design/protocol.md lists every extension there is, with its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytubemq.wire.protobuf.schema import proto_name, specs
from pytubemq.wire.protocol.extensions import OURS, Capability, ExtensionMethod
from pytubemq.wire.rpc.methods import METHODS
from pytubemq.wire.serialization.descriptors import all_classes

PAGE = (Path(__file__).parents[4] / "docs" / "design" / "protocol.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("capability", list(Capability), ids=lambda capability: capability.name)
def test_capabilities(capability: Capability) -> None:
    start = f"| {capability.value.bit_length() - 1} | `{capability.name}` | "
    (row,) = [row for row in ROWS if row.startswith(start)]
    assert row.startswith(f"{start}*reserved:*") == (capability not in OURS)


@pytest.mark.parametrize("method", list(ExtensionMethod), ids=lambda method: method.name)
def test_methods(method: ExtensionMethod) -> None:
    spec = METHODS[method]
    (service,) = spec.services
    messages = f"`{spec.request.__name__}`, `{spec.response.__name__}`"
    assert f"| {int(method)} | `{method.name}` | {int(service)} | {messages} |" in ROWS


def test_fields() -> None:
    told = set()
    for row in ROWS:
        cells = [re.findall(r"`(\w+)`", cell) or re.findall(r"\b\d{4}\b", cell) for cell in row.split("|")[1:4]]
        if cells[1] and cells[1][0].isdigit():
            told |= {
                (cls, name, int(number)) for cls in cells[0] for number, name in zip(cells[1], cells[2], strict=True)
            }
    there = {
        (cls.__name__, proto_name(attribute), spec.number)
        for cls in all_classes()
        for attribute, spec in specs(cls).items()
        if spec.number >= 1000
    }
    assert told == there


def test_what_we_offer_is_what_the_picture_says() -> None:
    assert f"capabilities = {int(OURS):#x}" in PAGE
