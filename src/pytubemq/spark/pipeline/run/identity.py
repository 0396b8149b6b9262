"""Whose progress a state directory holds, so that no other source is read on with it.

The invariant: offsets of one source are never taken for another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from pytubemq.spark.pipeline.run.state import StateDirectory
    from pytubemq.spark.pipeline.spec.model import Pipeline

NAME: Final = "source.json"


def check_source(state: StateDirectory, pipeline: Pipeline) -> None:
    """Compare the source with the one that the progress is of, and write down the present one.

    Raises:
        ConfigError: they are different, and progress was made.
    """
    source = pipeline.source
    now: dict[str, Any] = {
        "pipeline": pipeline.name,
        "format": source.format,
        "topics": sorted(source.topics),
        "topic_pattern": source.topic_pattern,
        "path": source.path,
    }
    before = state.read(NAME)
    if before is not None and state.exists("checkpoint") | state.exists("ledger") and not _goes_on(before, now):
        raise ConfigError(
            f"{state.location} holds the progress of {_said(before)}, not of {_said(now)}",
            hint="give the pipeline another `state`, or forget the progress with `pytubemq pipeline reset`",
        )
    state.write(NAME, now)


def _goes_on(before: dict[str, Any], now: dict[str, Any]) -> bool:
    if before.get("format") != now["format"] or before.get("path") != now["path"]:
        return False
    if before.get("pipeline") != now["pipeline"]:
        return False
    old, new = set(before.get("topics") or ()), set(now["topics"])
    return not old or not new or bool(old & new)


def _said(source: dict[str, Any]) -> str:
    what = ", ".join(source.get("topics") or ()) or source.get("topic_pattern") or source.get("path") or "its source"
    return f"pipeline {source.get('pipeline')} reading {source.get('format')} {what}"
