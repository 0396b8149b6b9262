"""The files under proto/ say what the message classes say."""

from __future__ import annotations

from pathlib import Path

from pytubemq.wire.serialization.descriptors import FILES
from scripts.docs.proto import render

PROTO = Path(__file__).parents[3] / "proto"


def test_no_other_file_lies_there() -> None:
    assert {path.name for path in PROTO.iterdir()} == set(FILES)


def test_labels_kinds_and_extensions_are_written() -> None:
    text = render("BrokerService.proto")
    assert 'syntax = "proto2";' in text
    assert "  required bytes payLoadData = 3;\n" in text
    assert "  repeated TransferedMessage messages = 4;\n" in text
    assert "  optional int64 offset = 1000;  // extension\n" in text
    assert "  repeated PackEntry packs = 4;\n" in render("Extension.proto")
