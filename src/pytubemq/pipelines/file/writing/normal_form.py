"""A pipeline in its normal form: a mapping for JSON that leaves out what is default, and how two of them differ.

The invariant: two files that say the same have one normal form, and no secret is in it.
"""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytubemq.pipelines.file.secrets import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytubemq.pipelines.file.model import Pipeline

MORE: Final = "more"
"""The field of a sink for keys that no other kind has: they are written next to its other keys."""


class Difference(NamedTuple):
    """One value that is not the same; None where it is not there."""

    path: str
    """As faults show it: `sinks.lake.partition_by`."""
    before: Any
    after: Any


def as_dict(pipeline: Pipeline) -> dict[str, Any]:
    """Return the normal form, without the tests, which have no part in a run."""
    made = _section(dataclasses.replace(pipeline, tests=()))
    assert isinstance(made, dict)
    return made


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return the differences of two normal forms, by path."""
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    paths = sorted(old.keys() | new.keys())
    return [Difference(path, old.get(path), new.get(path)) for path in paths if old.get(path) != new.get(path)]


def _section(value: Any, name: str = "") -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if field.name == MORE:
                kept |= _section(item)
            elif item != _default(field):
                kept[field.name] = _section(item, field.name)
        return kept
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple | list):
        return [_section(item, name) for item in value]
    if isinstance(value, str):
        return redact(name, value)
    if hasattr(value, "items"):
        return {str(key): _section(item, str(key)) for key, item in sorted(value.items())}
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else dataclasses.MISSING


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        yield path, [item["name"] for item in value]  # their order counts too
        for item in value:
            yield from _leaves({key: kept for key, kept in item.items() if key != "name"}, f"{path}.{item['name']}")
    else:
        yield path, value
