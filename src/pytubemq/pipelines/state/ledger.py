"""The ledger: for each batch, which sinks have it, how many rows, what was rejected, and the audit counts.

The invariant: a sink stands in the entry of a batch only after it has the whole batch; an entry is complete only when
every sink stands in it. An entry of another pipeline id (the progress was reset since) counts as not there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines.events import MAIN
from pytubemq.pipelines.state.files import LEDGER

if TYPE_CHECKING:
    from pytubemq.pipelines.state.directory import StateDirectory

KEPT: Final = 500
"""Entries kept per query; older ones are deleted. What they add up to stands in the newest."""


@dataclass(slots=True)
class Entry:
    """The ledger's entry of one batch."""

    pipeline_id: str
    query: str
    batch_id: int
    read: dict[str, Any] = field(default_factory=dict)
    """`rows`, `rejected`, `reasons`."""
    audit: list[dict[str, Any]] = field(default_factory=list)
    """By stream and minute of data time: `read`, `rejected`."""
    sinks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By sink: `rows`, `at`, `replayed`, and `audit` where it is known by minute."""
    complete: bool = False
    totals: dict[str, Any] = field(default_factory=dict)
    """Sums over all batches up to this one: `batches`, `rows_in`, `rejected`, `rows_out` by sink."""

    def put(self, sink: str, rows: int, *, replayed: bool, audit: list[dict[str, Any]] | None = None) -> None:
        """Record that a sink has the batch."""
        self.sinks[sink] = {"rows": rows, "at": time.time(), "replayed": replayed}
        if audit is not None:
            self.sinks[sink]["audit"] = audit


class Ledger:
    """The entries of one query."""

    def __init__(self, state: StateDirectory, *, query: str = MAIN) -> None:
        self._state = state
        self._query = query
        self._under = LEDGER if query == MAIN else f"{LEDGER}/{query}"

    def entry(self, batch_id: int, pipeline_id: str) -> Entry:
        """Read the entry of a batch; an empty one if there is none."""
        found = self._read(batch_id, pipeline_id)
        return found or Entry(pipeline_id, self._query, batch_id)

    def save(self, entry: Entry) -> None:
        """Write an entry; once it is complete, old ones go."""
        self._state.write(self._name(entry.batch_id), _as_json(entry))
        if entry.complete and entry.batch_id >= KEPT:
            self._state.delete(self._name(entry.batch_id - KEPT))

    def totals_before(self, batch_id: int, pipeline_id: str) -> dict[str, Any]:
        """Return the sums over all batches before this one."""
        before = self._read(batch_id - 1, pipeline_id)
        none: dict[str, Any] = {"batches": 0, "rows_in": 0, "rejected": 0, "rows_out": {}}
        return {**none, **before.totals} if before else none

    def _read(self, batch_id: int, pipeline_id: str) -> Entry | None:
        value = self._state.read(self._name(batch_id))
        if value is None or value.get("pipeline_id") != pipeline_id:
            return None
        return Entry(
            pipeline_id,
            self._query,
            batch_id,
            read=value.get("read", {}),
            audit=value.get("audit", []),
            sinks=value.get("sinks", {}),
            complete=bool(value.get("complete")),
            totals=value.get("totals", {}),
        )

    def _name(self, batch_id: int) -> str:
        return f"{self._under}/{batch_id}.json"


def _as_json(entry: Entry) -> dict[str, Any]:
    return {
        "pipeline_id": entry.pipeline_id,
        "query": entry.query,
        "batch": entry.batch_id,
        "read": entry.read,
        "audit": entry.audit,
        "sinks": entry.sinks,
        "complete": entry.complete,
        "totals": entry.totals,
    }


def add_totals(before: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """Add one batch to the sums."""
    rows_out = dict(before["rows_out"])
    for sink, done in entry.sinks.items():
        rows_out[sink] = rows_out.get(sink, 0) + done["rows"]
    return {
        "batches": before["batches"] + 1,
        "rows_in": before["rows_in"] + (entry.read.get("rows") or 0),
        "rejected": before["rejected"] + entry.read.get("rejected", 0),
        "rows_out": rows_out,
    }
