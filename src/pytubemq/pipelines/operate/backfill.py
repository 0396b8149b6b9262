"""A range of the source put through a pipeline again, as a run with a state of its own.

The invariant: the pipeline's own progress is not touched, and the same backfill started again goes on where it stopped
and repeats nothing: its state, and by it the batches that the sinks know, follows from its id, and an id keeps the
range that it had first.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pytubemq.errors import ConfigError
from pytubemq.model.offset import messages_between
from pytubemq.model.units import duration_s
from pytubemq.pipelines.analysis.edges import lies_before, read_edge
from pytubemq.pipelines.events import RunStatus
from pytubemq.pipelines.file.model import DEAD_LETTER, DeadLetter, OnError, Trigger, TriggerKind
from pytubemq.pipelines.file.sink_table import sink_kind
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.operate.backfills import backfill_title
from pytubemq.pipelines.operate.dead_letter_store import dead_letter_beside
from pytubemq.pipelines.rules.registry import refuse
from pytubemq.pipelines.rules.rule import Context
from pytubemq.pipelines.state.files import BACKFILLS, RANGE, RUN, LocalFiles, read_object
from pytubemq.spark.observe.lag import iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.ids import Partition
    from pytubemq.pipelines.file.model import Pipeline, Sink
    from pytubemq.pipelines.state.files import StateFiles

APART: Final = "a backfill"
"""The run in words."""
_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill: a pipeline and the range that it is to read."""

    id: str
    pipeline: Pipeline
    """The pipeline over that range, with a state of its own."""
    range: Mapping[str, Any]
    """`asked`: the two places as they were given; `places`: as they were when it was begun."""

    apart: ClassVar[str] = APART
    """Its run in words, for `run_pipeline`."""

    @property
    def title(self) -> str:
        """The title of its run."""
        return backfill_title(self.pipeline.name, self.id)

    def check_not_done(self) -> None:
        """Refuse a backfill that has finished before, where its state is on this machine.

        Raises:
            ConfigError: it has.
        """
        state = str(self.pipeline.state)
        if "://" not in state and read_object(LocalFiles(Path(state)), RUN).get("status") == RunStatus.FINISHED.value:
            raise ConfigError(
                f"backfill {self.id} is done already; its rows would be written again",
                hint="to run it again, give it another name: --id NAME",
            )

    def keep(self) -> None:
        """Write the range down, before the run begins: from then on the id is of this range."""
        state = str(self.pipeline.state)
        if "://" not in state:
            Path(state).mkdir(parents=True, exist_ok=True)
        files = _files(state)
        if not read_object(files, RANGE):
            files.write(RANGE, dict(self.range))


def backfill_of(
    pipeline: Pipeline, start: str | Mapping[str, Any], end: str | Mapping[str, Any], *, id: str | None = None
) -> Backfill:
    """Plan the pipeline from `start` up to `end` (places as `source.start` takes them; -10m is counted from now).

    What is asked for again under its id is the range that it was when it was begun. What is rejected joins the
    pipeline's own dead letters.

    Raises:
        ConfigError: the source is no topic, a place is none, the end lies before the start, the id is none or of
            another range, a sink's layout is log, or a step keeps state.
    """
    refuse(Context(pipeline, unplaced(pipeline), apart=APART))
    if pipeline.source.format != "tubemq":
        raise ConfigError(
            f"pipeline {pipeline.name} reads {pipeline.source.format}, which has no positions to begin and end at",
            hint="backfill is for topics",
        )
    _check_places(start, end)
    asked = json.loads(json.dumps([start, end], default=dict))
    start, end = _fixed(start), _fixed(end)
    if id is None:
        id = hashlib.sha256(repr((start, end)).encode()).hexdigest()[:12]
    if not _ID.fullmatch(id):
        raise ConfigError(f"{id!r} is not an id for a backfill", hint="use letters, digits, . _ -, at most 64")
    state = f"{pipeline.state}/{BACKFILLS}/{id}"
    wanted = {"asked": asked, "places": json.loads(json.dumps([start, end], default=dict))}
    begun = read_object(_files(state), RANGE)
    if begun and begun.get("asked") != asked and begun.get("places") != wanted["places"]:
        first, last = begun.get("places") or (None, None)
        raise ConfigError(
            f"backfill {id} was started from {first} to {last}, not from {start} to {end}",
            hint="start it again with that range, or give this one another name: --id NAME",
        )
    if begun:
        wanted, (start, end) = begun, begun["places"]
    source = replace(pipeline.source, start=start, end=end, commit_group=None)
    over = replace(
        pipeline,
        source=source,
        state=state,
        trigger=Trigger(TriggerKind.AVAILABLE_NOW),
        dead_letter=dead_letter_beside(pipeline) if pipeline.decode is not None else None,
    )
    return Backfill(id, over, wanted)


def backfill_ranges(backfill: Backfill) -> list[dict[str, Any]]:
    """Return what would be read, by partition: offsets, and messages (at Java Brokers an upper bound).

    Raises:
        TubeError: the cluster cannot be asked, or a place is not there.
    """
    from pytubemq.pipelines.frames.source import source_options
    from pytubemq.spark.source.batch import TubeMqReader
    from pytubemq.spark.source.options import parse_options
    from pytubemq.spark.source.read.task import RangePartition

    options = parse_options(source_options(backfill.pipeline, streaming=False))
    wanted = [
        one for part in TubeMqReader(options).partitions() if isinstance(part, RangePartition) for one in part.ranges
    ]
    found: dict[str, dict[str, Any]] = {}
    for one in wanted:
        key = str(one.partition)
        row = found.setdefault(key, {"partition": key, "from": one.start, "to": one.end, "messages": 0})
        row["from"], row["to"] = min(row["from"], one.start), max(row["to"], one.end)
        row["messages"] = messages_between(row["from"], row["to"])
    return [found[key] for key in sorted(found)]


def backfill_effects(pipeline: Pipeline) -> list[str]:
    """Describe what writing rows again does to each sink, and rejecting records again to the dead letters."""
    found = [f"{sink.name}: {_again(sink)}" for sink in pipeline.sinks]
    decode = pipeline.decode
    if decode is not None and decode.format != "raw" and decode.on_error is OnError.DEAD_LETTER:
        again = _again((pipeline.dead_letter or DeadLetter()).as_sink())
        found.append(f"{DEAD_LETTER}, for records that are rejected again: {again}")
    return found


def ends_of(pipeline: Pipeline) -> dict[Partition, tuple[int, int]]:
    """Fetch the first readable offset and the end of each partition of the source's topics.

    Raises:
        TubeError: the cluster cannot be asked.
    """
    from pytubemq.pipelines.frames.source import source_options
    from pytubemq.spark.source.options import parse_options
    from pytubemq.spark.source.planning.survey import Survey

    if pipeline.source.format != "tubemq":
        raise ConfigError(f"pipeline {pipeline.name} reads {pipeline.source.format}, so --newest does not apply")
    options = parse_options(source_options(replace(pipeline, decode=None), streaming=False))
    return {key: (there.min_offset, there.max_offset) for key, there in Survey(options).ends().items()}


def _files(state: str) -> StateFiles:
    if "://" not in state:
        return LocalFiles(Path(state).absolute())
    from pytubemq.pipelines.state.directory import StateDirectory

    return StateDirectory(state)


def _fixed(place: Any) -> Any:
    """Convert a time ago to the time that it is now; all else stays."""
    if not isinstance(place, str) or not place.startswith("-"):
        return place
    ago_s = duration_s(place[1:])
    return place if ago_s is None else iso(time.time() - ago_s)


def _check_places(start: str | Mapping[str, Any], end: str | Mapping[str, Any]) -> None:
    for name, place in (("--from", start), ("--to", end)):
        if isinstance(place, str):
            try:
                read_edge(place)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error.message}", hint=error.hint) from error
    both = isinstance(start, str) and isinstance(end, str)
    if both and lies_before(str(end), str(start), int(time.time() * 1000)):
        raise ConfigError(f"--to {end} is before --from {start}", hint="change one of them")


def _again(sink: Sink) -> str:
    kind = sink_kind(sink.format)
    return "rows with the same keys are replaced" if sink.keys and kind.has_upsert else kind.again
