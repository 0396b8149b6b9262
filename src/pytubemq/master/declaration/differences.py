"""The differences between two declarations, as a person sees them before they are applied."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pytubemq.master.declaration.metadata_views import FieldChange, MetadataChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytubemq.master.declaration.declaration import Declaration

_KINDS: Final = {"brokers": "broker", "topics": "topic", "groups": "group", "users": "user"}
CLUSTER: Final = "cluster"


def differences(before: Declaration, after: Declaration) -> list[MetadataChange]:
    """Return the changes that make one declaration the other: the cluster first, then by kind."""
    old, new = _entries(before), _entries(after)
    found = []
    for key in [*new, *(key for key in old if key not in new)]:
        was, will = old.get(key), new.get(key)
        if was == will:
            continue
        action = "create" if was is None else "remove" if will is None else "change"
        fields = [] if will is None else list(_fields(was or {}, will))
        found.append(MetadataChange(kind=key[0], name=key[1], action=action, fields=fields))
    order = [CLUSTER, *_KINDS.values()]
    return sorted(found, key=lambda change: order.index(change.kind))


def fingerprint(changes: list[MetadataChange]) -> str:
    """Return a short text that identifies these changes."""
    return hashlib.sha256(msgspec.json.encode(changes)).hexdigest()[:32]


def _entries(declaration: Declaration) -> dict[tuple[str, str], dict[str, Any]]:
    plain = msgspec.to_builtins(declaration)
    found = {(CLUSTER, CLUSTER): dict(_flat(plain.get(CLUSTER, {})))}
    for section, kind in _KINDS.items():
        for name, entry in plain.get(section, {}).items():
            found[kind, name] = dict(_flat(entry))
    return found


def _flat(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in entry.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _fields(was: Mapping[str, Any], will: Mapping[str, Any]) -> Iterator[FieldChange]:
    for key in [*will, *(key for key in was if key not in will)]:
        if was.get(key) != will.get(key):
            yield FieldChange(key=key, before=was.get(key), after=will.get(key))
