"""State directories as runs leave them, for the tests."""

from __future__ import annotations

import json
import os
import platform
import time
from typing import TYPE_CHECKING, Any

from pytubemq.pipelines.events import BatchDone, Started, event_as_json

if TYPE_CHECKING:
    from pathlib import Path

NOW_S = 1_770_000_000.0


def batch(number: int, **more: Any) -> BatchDone:
    """A batch of a thousand rows in a second."""
    fields: dict[str, Any] = {
        "batch_id": number,
        "rows_in": 1_000,
        "rows_out": {"lake": 990},
        "rejected": 10,
        "lag_rows": 5_000 - number,
        "lag_s": 2.5,
        "seconds": 1.0,
        "parts": {"read": 0.4, "sink:lake": 0.5, "walCommit": 0.02},
        "offsets": {"1:t:0": 28 * number},
        "reasons": {"decode.json": 10},
        "at_s": NOW_S + number,
    }
    return BatchDone(**fields | more)


def started(**more: Any) -> Started:
    """The first event of a run."""
    fields: dict[str, Any] = {
        "pipeline": "orders",
        "run_id": "f00d",
        "pipeline_id": "cafe",
        "state": "/state",
        "sinks": ("lake",),
        "queries": ("main",),
        "at_s": NOW_S,
    }
    return Started(**fields | more)


def write_state(place: Path, *, batches: int = 3, **run: Any) -> Path:
    """A state directory of a run of this process."""
    place.mkdir(parents=True, exist_ok=True)
    facts = {
        "pipeline": "orders",
        "run_id": "f00d",
        "pipeline_id": "cafe",
        "pid": os.getpid(),
        "host": platform.node(),
        "started": NOW_S,
        "heartbeat": time.time(),
        "status": "running",
    }
    (place / "run.json").write_text(json.dumps(facts | run))
    lines = [json.dumps(event_as_json(batch(number))) for number in range(batches)]
    (place / "progress.jsonl").write_text("\n".join([*lines, '{"event": "BatchDo']))
    (place / "spec.json").write_text(json.dumps({"name": "orders", "sinks": [{"options": {"password": "hunter2"}}]}))
    (place / "ledger").mkdir(exist_ok=True)
    for number in range(batches):
        entry = {
            "totals": {"batches": number + 1, "rows_in": 1_000 * (number + 1)},
            "audit": [{"stream": "web", "minute": "2026-02-02T02:40", "read": 1_000, "rejected": 10}],
            "sinks": {"lake": {"rows": 990, "audit": [{"stream": "web", "minute": "2026-02-02T02:40", "rows": 990}]}},
        }
        (place / "ledger" / f"{number}.json").write_text(json.dumps(entry))
    return place
