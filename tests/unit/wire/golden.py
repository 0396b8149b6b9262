"""The frames recorded from the Java system, and our values in the form in which they were written down."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from enum import IntEnum
from pathlib import Path
from typing import Any

from pytubemq.wire.protobuf.schema import Kind, Label, proto_name, specs

VECTORS = Path(__file__).parents[2] / "vectors"
FRAME_FILES = (
    "balance-master",
    "broker-master",
    "by-hand",
    "consumer-broker",
    "consumer-master",
    "multi-block",
    "producer-broker",
    "producer-master",
)


def lines(name: str) -> list[dict[str, Any]]:
    """The records of one file."""
    return [json.loads(line) for line in (VECTORS / f"{name}.jsonl").read_text().splitlines()]


def frames() -> list[dict[str, Any]]:
    """Every recorded frame."""
    return [record for name in FRAME_FILES for record in lines(name)]


def as_recorded(message: Any, like: Any) -> dict[str, Any]:
    """A message by its protobuf names, byte fields in the way `like` has them."""
    found: dict[str, Any] = {}
    for attribute, spec in specs(type(message)).items():
        value = getattr(message, attribute)
        if value is None or (spec.label is Label.REPEATED and not value):
            continue
        name = proto_name(attribute)
        pattern = like.get(name) if isinstance(like, dict) else None
        if spec.label is Label.REPEATED and spec.kind is not Kind.STR:
            patterns = pattern if isinstance(pattern, list) else [None] * len(value)
            assert len(patterns) == len(value), name
            found[name] = [_plain(item, shape) for item, shape in zip(value, patterns, strict=True)]
        else:
            found[name] = _plain(value, pattern)
    return found


def _plain(value: Any, like: Any) -> Any:
    if isinstance(value, bytes):
        return _bytes(value, like if isinstance(like, dict) else {})
    if dataclasses.is_dataclass(value):
        return as_recorded(value, like)
    if isinstance(value, IntEnum):
        return value.name
    return list(value) if isinstance(value, tuple) else value


def _bytes(value: bytes, like: dict[str, Any]) -> dict[str, Any]:
    if "sha256" in like:
        head = value[: len(like["head_hex"]) // 2].hex()
        return {"len": len(value), "sha256": hashlib.sha256(value).hexdigest(), "head_hex": head}
    if "text" in like:
        return {"hex": value.hex(), "text": value.decode()}
    return {"hex": value.hex()}
