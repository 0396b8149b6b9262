"""The audit trail: who changed what, from where, when, before and after.

The invariants: a change and its entries are stored in one transaction, so neither is there without the other; no entry
has a secret; the trail is bounded in age, in number and in the length of each entry.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pytubemq.model.limits import AUDIT_DAYS, MAX_AUDIT_CHARS, MAX_AUDIT_ENTRIES
from pytubemq.model.records import AuditRecord, Record, Stamp
from pytubemq.security.secret import MASK
from pytubemq.storage.metastore.tables import TABLE_OF, TABLES, key_of, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.net.clock import Clock

DONE: Final = "done"
REFUSED: Final = "refused"
_DAY_MS: Final = 86_400_000
_RECORDS_AN_ENTRY: Final = 20
_FORGOTTEN_A_CHANGE: Final = 1_000
_MAX_NAME_CHARS: Final = 200
_REFUSALS_SHARE: Final = 10
"""The number of entries of which one may be about a refused sign-in."""
_WORDS: Final = {
    "deploy": "deployment",
    "consume": "consume control of group",
    "consumer_group": "group",
    "account": "user",
    "user_token": "token",
}
"""The words for kinds of records whose table has another name."""
_SECRETS: Final = frozenset({"sealed_secret", "password_hash", "token_hash"})
_SHOWN: Final[dict[type[Any], tuple[tuple[int, str], ...]]] = {
    table.kind: tuple(
        (at, column)
        for at, column in enumerate(table.columns)
        if column not in Stamp.__slots__ and column not in table.key
    )
    for table in TABLES
}
"""The columns that entries have of each kind of record, with their places in a row."""


@dataclass(slots=True)
class ChangeOrigin:
    """The origin of a change: its user, host and call.

    `user` is blank for a caller that was not identified; the entry then has the name that the caller gave. `noted` is
    true once an entry about the change is stored.
    """

    user: str
    host: str
    action: str
    noted: bool = False
    before: str = "{}"
    after: str = "{}"
    """The state before and after a change of something other than records, set by the code that makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedCall:
    """A call that changed no record and is recorded all the same: its user, host and action, and what it was about."""

    user: str
    host: str
    action: str
    target: str
    outcome: str = DONE
    before: str = "{}"
    after: str = "{}"


_CURRENT: Final[ContextVar[ChangeOrigin | None]] = ContextVar("pytubemq_change_origin", default=None)


@contextmanager
def change_of(origin: ChangeOrigin) -> Iterator[None]:
    """Attribute the changes inside to `origin`, also those of tasks that begin inside."""
    token = _CURRENT.set(origin)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_origin() -> ChangeOrigin | None:
    """Return the origin of the change that runs now; None if it is this server's own."""
    return _CURRENT.get()


@dataclass(frozen=True, slots=True)
class Changed:
    """A record before and after a change; None if it did not exist, or no longer does. `about` is one of them."""

    about: Record
    before: Record | None
    after: Record | None


@dataclass(frozen=True, slots=True)
class PendingEntries:
    """The entries of one change, which take some time to write where it has thousands of records."""

    origin: ChangeOrigin
    user: str
    changes: Sequence[Changed]
    first_id: int
    now_ms: int

    @property
    def count(self) -> int:
        """The number of entries."""
        return -(-len(self.changes) // _RECORDS_AN_ENTRY)

    def write(self) -> list[AuditRecord]:
        """Return the entries. It may be called on any thread."""
        return [
            self._entry(self.first_id + number, self.changes[at : at + _RECORDS_AN_ENTRY])
            for number, at in enumerate(range(0, len(self.changes), _RECORDS_AN_ENTRY))
        ]

    def _entry(self, entry_id: int, changes: Sequence[Changed]) -> AuditRecord:
        names = [name_of(one.about) for one in changes]
        before = {name: _differing(one.before, one.after) for name, one in zip(names, changes, strict=True)}
        after = {name: _differing(one.after, one.before) for name, one in zip(names, changes, strict=True)}
        return _bounded(
            AuditRecord(
                entry_id,
                self.origin.host,
                self.origin.action,
                ", ".join(names),
                DONE,
                as_text({name: fields for name, fields in before.items() if fields}),
                as_text({name: fields for name, fields in after.items() if fields}),
                _stamp(self.user, self.now_ms),
            )
        )


class AuditTrail:
    """The entries that are kept, oldest first."""

    def __init__(self, clock: Clock, *, keep_days: int = AUDIT_DAYS, most: int = MAX_AUDIT_ENTRIES) -> None:
        self._clock = clock
        self._keep_ms = keep_days * _DAY_MS
        self._most = most
        self._entries: dict[int, AuditRecord] = {}
        self._refusals: dict[int, None] = {}
        """The ids of the entries about refused sign-ins."""
        self._next_id = 1

    def __len__(self) -> int:
        return len(self._entries)

    def enter(self, entry: AuditRecord) -> None:
        """Add a stored entry."""
        self._entries[entry.entry_id] = entry
        if entry.outcome == REFUSED:
            self._refusals[entry.entry_id] = None
        self._next_id = max(self._next_id, entry.entry_id + 1)

    def remove(self, entry: AuditRecord) -> None:
        """Forget an entry."""
        self._entries.pop(entry.entry_id, None)
        self._refusals.pop(entry.entry_id, None)

    def find(
        self, *, user: str | None = None, target: str | None = None, since_ms: int = 0, limit: int = 100
    ) -> list[AuditRecord]:
        """Return the newest entries, newest first; of one user, about one target, and not older than `since_ms`.

        A target is the whole name as the trail shows it (`topic orders`), or one word of it (`orders`).
        """
        oldest_ms = max(since_ms, self._clock.wall_ms() - self._keep_ms)
        found = (
            entry
            for entry in reversed(self._entries.values())
            if entry.stamp.create_ms >= oldest_ms
            and (user is None or entry.stamp.create_user == user)
            and (target is None or _is_about(entry, target))
        )
        return list(islice(found, limit))

    def pending(
        self, puts: Sequence[Record], deletes: Sequence[Record], stored: Callable[[Record], Record | None]
    ) -> PendingEntries | None:
        """Return the entries of a change of records, still to be written; None if it is this server's own."""
        origin = current_origin()
        if origin is None:
            return None
        replaced = {(type(record), key_of(record)) for record in puts}
        changes = [Changed(record, stored(record), record) for record in puts]
        changes += [
            Changed(record, record, None) for record in deletes if (type(record), key_of(record)) not in replaced
        ]
        claimed = next((record.stamp.modify_user for record in puts), "")
        found = PendingEntries(origin, origin.user or claimed, changes, self._next_id, self._clock.wall_ms())
        self._next_id += found.count
        return found

    def entry(self, about: NotedCall) -> AuditRecord:
        """Return a new entry, which is not stored yet."""
        entry_id, self._next_id = self._next_id, self._next_id + 1
        stamp = _stamp(about.user, self._clock.wall_ms())
        return _bounded(
            AuditRecord(
                entry_id, about.host, about.action, about.target, about.outcome, about.before, about.after, stamp
            )
        )

    def to_forget(self, coming: int, *, refusals: int = 0) -> list[AuditRecord]:
        """Return the oldest entries that must go before some more come: too old, or too many.

        Refused sign-ins, which strangers can cause, make room for each other; so they displace no changes.
        """
        oldest_ms = self._clock.wall_ms() - self._keep_ms
        if refusals and len(self._refusals) + refusals > self._most // _REFUSALS_SHARE:
            return [self._entries[entry_id] for entry_id in islice(self._refusals, refusals)]
        excess = len(self._entries) + coming - self._most
        found: list[AuditRecord] = []
        for number, entry in enumerate(islice(self._entries.values(), max(excess, _FORGOTTEN_A_CHANGE))):
            if number >= excess and entry.stamp.create_ms >= oldest_ms:
                break
            found.append(entry)
        return found


def name_of(record: Record) -> str:
    """Return the name of a record in the trail: `topic orders`."""
    table = TABLE_OF[type(record)].name
    return " ".join([_WORDS.get(table, table), *map(str, key_of(record))])


def as_text(state: dict[str, Any]) -> str:
    """Return a state as JSON of a bounded length, an object also where it had to be cut."""
    kept: dict[str, Any] = {}
    size = 2
    for number, (name, value) in enumerate(state.items()):
        size += len(json.dumps({name: value}, ensure_ascii=False))
        if size > MAX_AUDIT_CHARS - 40:
            kept["..."] = f"and {len(state) - number} more"
            break
        kept[name] = value
    return json.dumps(kept, ensure_ascii=False)


def _differing(one: Record | None, other: Record | None) -> dict[str, Any]:
    """Return the fields of the first record that differ from the second, without secrets."""
    if one is None:
        return {}
    row: list[Any] = row_of(one)
    others = [None] * len(row) if other is None else row_of(other)
    return {
        column: MASK if column in _SECRETS and row[at] else row[at]
        for at, column in _SHOWN[type(one)]
        if row[at] != others[at]
    }


def _stamp(user: str, now_ms: int) -> Stamp:
    return Stamp(user[:_MAX_NAME_CHARS], now_ms, user[:_MAX_NAME_CHARS], now_ms)


def _bounded(entry: AuditRecord) -> AuditRecord:
    return replace(
        entry,
        host=entry.host[:_MAX_NAME_CHARS],
        action=entry.action[:_MAX_NAME_CHARS],
        target=entry.target[: 2 * MAX_AUDIT_CHARS],
    )


def _is_about(entry: AuditRecord, target: str) -> bool:
    return any(target == name or target in name.split() for name in entry.target.split(", "))
