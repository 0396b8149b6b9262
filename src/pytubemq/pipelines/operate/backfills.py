"""The backfills that a pipeline has had, from the states that they left below its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytubemq.pipelines.operate.status import status
from pytubemq.pipelines.state.files import BACKFILLS, RUN, LocalFiles

if TYPE_CHECKING:
    from pytubemq.pipelines.state.files import Files


def backfill_title(pipeline: str, id: str) -> str:
    """What a backfill is called wherever it is told of."""
    return f"{pipeline}, backfill {id}"


def backfills(files: Files) -> list[dict[str, Any]]:
    """How each stands, the oldest first; none where the state is not on this machine, as its directories are not listed
    elsewhere.
    """
    place = Path(files.location) / BACKFILLS
    if not isinstance(files, LocalFiles) or not place.is_dir():
        return []
    found = [_told(one) for one in place.iterdir() if (one / RUN).is_file()]
    return sorted(found, key=lambda told: str(told["started"]))


def _told(place: Path) -> dict[str, Any]:
    there = status(LocalFiles(place)).as_dict()
    return {"backfill": place.name, **{name: there[name] for name in ("status", "started", "rows_in", "rejected")}}
