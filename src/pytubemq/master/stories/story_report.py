"""A story for people: what this Master has seen and decided, and what people have changed, in one order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pytubemq.master.views import View, iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.master.catalogue.audit_trail import AuditTrail
    from pytubemq.master.stories.stories import Stories, Subject
    from pytubemq.model.records import AuditRecord

_MOST_CHANGES: Final = 1_000
"""Entries of the audit trail that are looked through."""


class StoryEntry(View, frozen=True, kw_only=True):
    """An event: what happened (`text`) and `why`; `user` is who changed something, blank where this Master acted."""

    time: str
    event: str
    text: str
    why: str = ""
    user: str = ""


class StoryView(View, frozen=True, kw_only=True):
    """A story, the newest entry first. What the Master saw before `since` is lost with its last start.

    Changes that people made are of the audit trail, which is older.
    """

    kind: str
    name: str
    since: str
    entries: list[StoryEntry]


def tell(stories: Stories, audit: AuditTrail, subject: Subject, *, since_ms: int, limit: int) -> StoryView:
    """Return the story of a group or a Broker, with at most `limit` entries."""
    found = [
        (one.ms, StoryEntry(time=iso(one.ms), event=one.event, text=one.text, why=one.why))
        for one in stories.find(subject, since_ms=since_ms)
    ]
    found += [
        (one.stamp.create_ms, _change(one))
        for one in audit.find(target=subject[1], since_ms=since_ms, limit=_MOST_CHANGES)
        if any(_is_about(name, subject) for name in one.target.split(", "))
    ]
    found.sort(key=lambda entry: entry[0], reverse=True)
    return StoryView(
        kind=subject[0], name=subject[1], since=iso(stories.since_ms), entries=[entry for _, entry in found[:limit]]
    )


def _is_about(target: str, subject: Subject) -> bool:
    kind, name = subject
    return target == f"{kind} {name}" or (kind == "group" and target.startswith(f"consume control of group {name} "))


def _change(entry: AuditRecord) -> StoryEntry:
    return StoryEntry(
        time=iso(entry.stamp.create_ms),
        event="changed" if entry.outcome == "done" else entry.outcome,
        text="; ".join(_fields(entry)) or entry.target,
        why=entry.action,
        user=entry.stamp.create_user,
    )


def _fields(entry: AuditRecord) -> Iterator[str]:
    before, after = json.loads(entry.before), json.loads(entry.after)
    for name, fields in after.items():
        if not isinstance(fields, dict):
            continue
        old = before.get(name)
        for key, value in fields.items():
            was = old.get(key) if isinstance(old, dict) else None
            yield f"{name}: {key} {'' if was is None else f'{was} -> '}{value}"
    for name in before:
        if name not in after:
            yield f"{name} removed"
