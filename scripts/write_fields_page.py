#!/usr/bin/env python3
"""Write docs/design/fields.md from docs/design/fields.toml and the message classes."""

from __future__ import annotations

import sys
import tomllib
from enum import Enum
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from pytubemq.wire.messages import rpc
from pytubemq.wire.methods import METHODS, Service
from pytubemq.wire.schema import FieldSpec, Kind, Label, specs

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs/design/fields.toml"
PAGE = ROOT / "docs/design/fields.md"
READERS = {
    "all": "The envelope, read by all",
    "master": "Read by the Master",
    "broker": "Read by a Broker",
    "client": "Read by clients",
}
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


def render(data: dict[str, Any]) -> str:
    """Return the page."""
    there, known = fields(), rows(data)
    lines = [_HEAD]
    for reader, title in READERS.items():
        lines += [f"## {title}", "", "| message | field | bound | checked in | test |", "|---|---|---|---|---|"]
        for key in [key for key in there if key[0] == reader]:
            lines.append(_line(key, there[key], known.get(key, {})))
        lines.append("")
    return "\n".join(lines)


def _line(key: Field, spec: FieldSpec, row: dict[str, Any]) -> str:
    most = f"at most {spec.most:,}; " if spec.most is not None else ""
    bound = most + (row.get("bound") or "not read")
    check, test = row.get("check", ""), row.get("test", "")
    checked = f"`{check.removeprefix('pytubemq.')}`" if check else ""
    path, _, name = test.partition("::")
    shown = f"[{name or Path(path).stem}](../../{path})" if test else ""
    return f"| {key[1]} | {key[2]} | {bound} | {checked} | {shown} |"


_HEAD = """# Fields of the protocol's messages

Every field of every message that comes from a peer: what it may be, where that is checked, and a test that shows it.
Written by `scripts/write_fields_page.py` from the message classes and from `fields.toml`; a field without a row, and a
row whose check or test does not exist, fails the tests. Booleans are any, parts have rows of their own, and how many
values a repeated field may have is checked on the bytes before they are read (`wire.counts`). What "plain" text, names,
hosts and ports are, say the functions of `model.names`. All of it is sent in bad forms by hostile peers, see
[boundaries](boundaries.md).
"""

if __name__ == "__main__":
    PAGE.write_text(render(tomllib.loads(DATA.read_text("utf-8"))), "utf-8")
