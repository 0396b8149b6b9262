"""The tables of the reference pages on pipelines: keys, codes of faults, guarantees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.analysis.guarantees import SOURCES
from pytubemq.pipelines.file.faults import FAULT_MEANINGS, Severity, severity_of
from pytubemq.pipelines.file.key import Key, Kind
from pytubemq.pipelines.file.keys import child, sections
from pytubemq.pipelines.file.sink_table import sink_kinds
from scripts.docs.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.key import Section
    from pytubemq.pipelines.file.sink_kind import Promise

_KINDS: Final = {
    Kind.COUNT: "number, as `200_000`",
    Kind.SIZE: "size, as `64MiB`",
    Kind.DURATION: "time, as `10s`, `500ms`, `2m`",
    Kind.INTERVAL: "interval, as `10 seconds` or `10s`",
    Kind.RATIO: "share, as `0.01` or `1%`",
    Kind.FUNCTION: "`module:function`",
    Kind.TEXTS: "list of text, or one",
}
_TITLES: Final = {"": "The file"}


def file_tables() -> dict[str, str]:
    """Return the parts of docs/reference/pipeline-file.md: the keys of each section, and the codes of faults."""
    return {"keys": "\n".join(_section(one) for one in sections().values()), "codes": _codes()}


def guarantee_tables() -> dict[str, str]:
    """Return the part of docs/reference/pipeline-guarantees.md: what sinks promise, then what reading promises."""
    sinks = [
        (f"`{kind.name}`", case, *_promise(promise)) for kind in sink_kinds() for case, promise in kind.promises.items()
    ]
    sources = [(kind.value, *_promise(promise)) for kind, promise in SOURCES.items()]
    return {
        "guarantees": table(("sink", "case", "each row", "why", "needs"), sinks)
        + "\n\n"
        + table(("source", "each message", "why", "needs"), sources)
    }


def _promise(promise: Promise) -> tuple[str, str, str]:
    return promise.guarantee.value.replace("_", " "), promise.why, promise.needs


def _section(section: Section) -> str:
    keys = table(("key", "takes", "default", ""), [_row(section, key) for key in section.keys])
    return f"## {_title(section)}\n\n{section.doc}\n\n{keys}\n"


def _codes() -> str:
    rows = []
    for code, said in FAULT_MEANINGS.items():
        kind = "" if severity_of(code) is Severity.ERROR else " (warning)"
        rows.append((f"`{code.value}`", f"`{said.name}`{kind}", said.meaning, said.remedy))
    return table(("code", "name", "what is wrong", "what to do"), rows)


def _title(section: Section) -> str:
    return _TITLES.get(section.path, f"`{section.path.replace('[]', '')}`" + (", each" if "[]" in section.path else ""))


def _row(section: Section, key: Key) -> tuple[str, ...]:
    default = "needed" if key.required else key.default
    return (f"`{key.name}`", ", ".join(_takes(section, key)), default, key.doc)


def _takes(section: Section, key: Key) -> Iterator[str]:
    if key.kind in {Kind.SECTION, Kind.SECTIONS}:
        anchor = re.sub(r"[^\w -]", "", _title(child(section, key))).replace(" ", "-")
        yield f"[{'list of sections' if key.kind is Kind.SECTIONS else 'section'}](#{anchor})"
    elif key.kind is Kind.CHOICE:
        yield from (f"`{word}`" for word in key.takes)
    else:
        yield _KINDS.get(key.kind, key.kind.value)
