"""The tables of docs/design/fields.md, from docs/design/fields.toml and the message classes."""

from __future__ import annotations

import tomllib
from enum import Enum
from pathlib import Path
from typing import Any

from pytubemq.wire.protobuf.schema import FieldSpec, Kind, Label, specs
from pytubemq.wire.protocol.messages import rpc
from pytubemq.wire.rpc.methods import METHODS, Service
from scripts.docs.markdown import table

DATA = Path(__file__).parents[2] / "docs/design/fields.toml"
READERS = ("all", "master", "broker", "client")
"""Who reads a field; `all` read the envelope."""
ASKED_BY_MASTER = ("PARTITION_OFFSETS", "RESET_OFFSETS", "RESET_HISTORY", "CONSUMER_HEARTBEAT_C2B")
"""Methods whose responses the Master reads; the first two, and the last, clients read as well."""

Field = tuple[str, str, str]
"""Who reads it, message, field."""


def fields() -> dict[Field, FieldSpec]:
    """Return every field that somebody reads from a peer, but for booleans and parts, which the schema says alone."""
    found: dict[Field, FieldSpec] = {}
    for spec in METHODS.values():
        name = spec.method.name
        at_master = Service.MASTER in spec.services
        _walk(spec.request, "master" if at_master else "broker", found)
        if name in ASKED_BY_MASTER:
            _walk(spec.response, "master", found)
        if name != "RESET_HISTORY":
            _walk(spec.response, "broker" if name.endswith("B2M") else "client", found)
    for cls in vars(rpc).values():
        if isinstance(cls, type) and cls.__module__ == rpc.__name__:
            _walk(cls, "all", found)
    return found


def _walk(cls: type, reader: str, found: dict[Field, FieldSpec]) -> None:
    for name, spec in specs(cls).items():
        repeated = spec.label is Label.REPEATED
        is_part = not isinstance(spec.kind, Kind) and not issubclass(spec.kind, Enum)
        if is_part and isinstance(spec.kind, type):
            _walk(spec.kind, reader, found)
        if repeated or not (is_part or spec.kind is Kind.BOOL):
            found[reader, cls.__name__, name] = spec


def rows(data: dict[str, Any]) -> dict[Field, dict[str, Any]]:
    """Return the row of each field that has one.

    Raises:
        ValueError: a field has two rows.
    """
    there = fields()
    found: dict[Field, dict[str, Any]] = {}
    for row in data["row"]:
        for message in row["messages"]:
            for name in row["fields"]:
                key = (row["at"], message, name)
                if key in found and key in there:
                    raise ValueError(f"{key} has two rows")
                found[key] = row
    return {key: row for key, row in found.items() if key in there}


def tables() -> dict[str, str]:
    """Return one table for each who reads the fields."""
    there, known = fields(), rows(tomllib.loads(DATA.read_text("utf-8")))
    head = ("message", "field", "bound", "checked in", "test")
    return {
        reader: table(head, [_row(key, spec, known.get(key, {})) for key, spec in there.items() if key[0] == reader])
        for reader in READERS
    }


def _row(key: Field, spec: FieldSpec, row: dict[str, Any]) -> tuple[str, ...]:
    most = f"at most {spec.most:,}; " if spec.most is not None else ""
    bound = most + (row.get("bound") or "not read")
    check, test = row.get("check", ""), row.get("test", "")
    checked = f"`{check.removeprefix('pytubemq.')}`" if check else ""
    path, _, name = test.partition("::")
    shown = f"[{name or Path(path).stem}](../../{path})" if test else ""
    return key[1], key[2], bound, checked, shown
