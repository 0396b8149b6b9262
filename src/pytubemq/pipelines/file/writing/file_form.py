"""The normal form of a pipeline in the words of a file: its keys and its units, in the order of the reference page.

The invariant: what comes out can be put back into a file, as far as the normal form holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytubemq.model.units import duration_text, size_text
from pytubemq.pipelines.file.key import Key, Kind
from pytubemq.pipelines.file.keys import ROOT, child

if TYPE_CHECKING:
    from pytubemq.pipelines.file.key import Section


def as_written(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Write values as a file does: `limit: {bytes: 64MiB}` for `size_bytes`; what no key is for comes last."""
    return _section(spec, ROOT)


def _section(values: Mapping[str, Any], section: Section) -> dict[str, Any]:
    made = {
        key.name: _value(values[key.into], key, section)
        for key in section.keys
        if key.into in values and _is_meant(key, values[key.into])
    }
    known = {key.into for key in section.keys}
    return made | {name: value for name, value in values.items() if name not in known}


def _is_meant(key: Key, value: Any) -> bool:
    """True if this is the key to write: two fill `topics`, one for a single topic and one for several."""
    return key.into != "topics" or (len(value) == 1) == (key.name == "topic")


def _value(value: Any, key: Key, section: Section) -> Any:
    if key.kind is Kind.SECTION and isinstance(value, Mapping):
        return _section(value, child(section, key))
    if key.kind is Kind.SECTIONS and isinstance(value, list):
        return [_section(item, child(section, key)) for item in value]
    if key.name == "topic" and isinstance(value, list):
        return value[0]
    if key.kind is Kind.SIZE and isinstance(value, int):
        return size_text(value)
    if key.kind is Kind.DURATION and isinstance(value, int | float):
        return duration_text(value)
    return value
