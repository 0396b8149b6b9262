"""The backfills that a pipeline has had, from the states that they left below its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytubemq.pipelines.operate.status import read_status
from pytubemq.pipelines.state.files import BACKFILLS, RUN, LocalFiles

if TYPE_CHECKING:
    from pytubemq.pipelines.state.files import StateFiles


def backfill_title(pipeline: str, id: str) -> str:
    """Return the title of a backfill, the same in all reports and logs."""
    return f"{pipeline}, backfill {id}"


def read_backfills(files: StateFiles) -> list[dict[str, Any]]:
    """List the status of each, the oldest first; none where the state is on another machine, whose directories are not
    listed.
    """
    place = Path(files.location) / BACKFILLS
    if not isinstance(files, LocalFiles) or not place.is_dir():
        return []
    found = [_status(one) for one in place.iterdir() if (one / RUN).is_file()]
    return sorted(found, key=lambda status: str(status["started"]))


def _status(place: Path) -> dict[str, Any]:
    there = read_status(LocalFiles(place)).as_dict()
    return {"backfill": place.name, **{name: there[name] for name in ("status", "started", "rows_in", "rejected")}}
