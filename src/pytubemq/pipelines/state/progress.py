"""Source of the progress that a state directory holds, so that no other source is read on with it.

The invariant: offsets of one source, or of one cluster, are never taken for another's. What may change is what names
the same rows as before, or some of them: topics and Masters can be added and taken away, as long as one stays. That a
pattern leaves out topics which were read, the source itself sees in the checkpoint. A state in which no batch was begun
is nobody's: a file whose first run failed is corrected and run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.state.files import LEDGER, read_object

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline, Source
    from pytubemq.pipelines.state.directory import StateDirectory
    from pytubemq.pipelines.state.files import StateFiles

NAME: Final = "source.json"
_NAMES_ROWS: Final = ("kafka.bootstrap.servers", "subscribe", "assign", "subscribepattern")
"""Options of other sources that say which rows they mean, in lower case."""


class OtherProgress(NamedTuple):
    """Progress that is another's."""

    message: str
    hint: str


def others_progress(state: StateFiles, pipeline: Pipeline) -> OtherProgress | None:
    """Compare the source with the one that the progress is of; return what is wrong if another one has made progress.

    Raises:
        ConfigError: a reference of the source stands for nothing.
    """
    before, now = read_object(state, NAME), _facts(pipeline)
    if not before or _goes_on(before, now) or not has_progress(state):
        return None
    strange = _are_strange(before.get("masters"), now["masters"])
    return OtherProgress(
        f"{state.location} has the progress of {_said(before)}, not of {_said(now)}",
        "give the pipeline another `state`, or forget the progress with  pytubemq pipeline reset FILE --yes"
        + ("; if it is the same cluster under new addresses, add an old Master to them for one run" if strange else ""),
    )


def remember_source(state: StateDirectory, pipeline: Pipeline) -> None:
    """Write down whose progress this is from now on."""
    state.write(NAME, _facts(pipeline))


def has_progress(state: StateFiles) -> bool:
    """True if a batch of any query was begun, or a source has written down on its own where it begins."""
    if state.exists(LEDGER):
        return True
    return any(
        any(name.isdigit() for name in state.names(f"{checkpoint}/offsets")) or state.exists(f"{checkpoint}/sources")
        for checkpoint in state.directories("checkpoint")  # each query has one of its own
    )


def _facts(pipeline: Pipeline) -> dict[str, Any]:
    """Return the facts that say whose offsets they are."""
    source = pipeline.source
    return {
        "pipeline": pipeline.name,
        "format": source.format,
        "topics": sorted(source.topics),
        "topic_pattern": source.topic_pattern,
        "path": source.path,
        "masters": _masters(source),
        "options": {
            name.lower(): sorted(resolve(value).split(","))
            for name, value in source.options.items()
            if source.format != "tubemq" and name.lower() in _NAMES_ROWS
        },
    }


def _goes_on(before: dict[str, Any], now: dict[str, Any]) -> bool:
    if before.get("format") != now["format"] or before.get("path") != now["path"]:
        return False
    if before.get("pipeline") != now["pipeline"]:
        return False
    if _are_strange(before.get("topics"), now["topics"]) or _are_strange(before.get("masters"), now["masters"]):
        return False
    old, new = before.get("options") or {}, now["options"]
    return not any(_are_strange(old.get(name), new.get(name)) for name in _NAMES_ROWS)


def _are_strange(before: list[str] | None, now: list[str] | None) -> bool:
    """True if both are known and have nothing in common."""
    return bool(before) and bool(now) and not set(before or ()) & set(now or ())


def _masters(source: Source) -> list[str]:
    """Return the Masters' addresses, each in one form."""
    from pytubemq.net.client.masters import parse_masters  # not for lint

    named = source.options.get("master", source.master)
    if source.format != "tubemq" or not named:
        return []
    return sorted(str(address).lower() for address in parse_masters(resolve(named)))


def _said(source: dict[str, Any]) -> str:
    what = ", ".join(source.get("topics") or ()) or source.get("topic_pattern") or source.get("path") or "its source"
    more = [
        ",".join(names) for names in (source.get("masters") or (), *(source.get("options") or {}).values()) if names
    ]
    of = f" ({'; '.join(more)})" if more else ""
    return f"pipeline {source.get('pipeline')} reading {source.get('format')} {what}{of}"
