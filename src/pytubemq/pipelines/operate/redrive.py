"""Dead letters put through the pipeline again.

The invariants: a dead letter leaves the table only after every sink has what became of it; a redrive that was killed is
finished, with the same rows, before another begins, and its sinks get nothing twice, since it is a run with a state of
its own. What is rejected again comes back as a new dead letter.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import Source, Trigger, TriggerKind
from pytubemq.pipelines.file.places import unplaced
from pytubemq.pipelines.operate.dead_letter_place import dead_letter_beside
from pytubemq.pipelines.operate.dead_letters import FOREIGN
from pytubemq.pipelines.rules.registry import refuse
from pytubemq.pipelines.rules.rule import Context

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.operate.dead_letters import DeadLetters, Key, Taken

DIRECTORY: Final = "redrive"
APART: Final = "a redrive"
"""What the run is, in words."""
SCHEMA: Final = (
    "topic STRING, brokerId INT, partition INT, offset BIGINT, timestamp TIMESTAMP, msgTime TIMESTAMP, msgType STRING, "
    "attributes MAP<STRING, STRING>, body BINARY"
)
"""A dead letter as the message that it was; the message's own time and type are not known any more."""
NOT_KEPT: Final = {"messageId": "BIGINT"}
"""Columns that a source has if they are chosen, and dead letters have not: null here."""
_STAGES: Final = ("message", "record")


@dataclass(frozen=True, slots=True)
class Redrive:
    """Dead letters on their way through the pipeline again."""

    place: Path
    rows: int

    def stages(self) -> list[str]:
        """Return the stages to run in turn: whole messages and single records are decoded differently."""
        return [stage for stage in _STAGES if (self.place / stage / "rows").exists()]

    def pipeline(self, pipeline: Pipeline, stage: str) -> Pipeline:
        """Return the pipeline over these dead letters.

        Raises:
            ConfigError: a sink would skip them, or a step keep them.
        """
        refuse(Context(pipeline, unplaced(pipeline), apart=APART))
        columns = pipeline.source.columns
        schema = ", ".join([SCHEMA, *(f"{name} {kind}" for name, kind in NOT_KEPT.items() if name in columns)])
        source = Source(format="parquet", path=str(self.place / stage / "rows"), schema=schema, columns=columns)
        decode = pipeline.decode
        if decode is not None and stage == "record":
            decode = replace(decode, of_records=True)
        state = str(self.place / stage / "state")
        trigger = Trigger(TriggerKind.AVAILABLE_NOW)
        # the limits are those of a batch of messages, and here all may be bad again
        letters = replace(dead_letter_beside(pipeline), max_ratio=None, max_rows=None)
        named = replace(pipeline, dead_letter=letters).with_masters()  # as the new source has none
        return replace(named, source=source, decode=decode, state=state, trigger=trigger)

    def give_up(self) -> None:
        """Forget it, if nothing of it has run: its dead letters are where they were."""
        if not any(self.place.glob("*/state/checkpoint*")):
            shutil.rmtree(self.place)

    def finish(self, files: DeadLetters) -> int:
        """Take the dead letters out of their table; returns how many there were."""
        keys = json.loads((self.place / "taken.json").read_text("utf-8"))["keys"]
        dropped = files.drop({name: {tuple(key) for key in listed} for name, listed in keys.items()})
        shutil.rmtree(self.place)
        return dropped


def stage_redrive(pipeline: Pipeline, taken: Taken) -> Redrive:
    """Write the chosen dead letters down as what a run reads.

    Raises:
        ConfigError: the state is not on this machine, there is nothing to redrive, a sink's layout is log, or a step
            keeps state.
    """
    refuse(Context(pipeline, unplaced(pipeline), apart=APART))
    if taken.rows.num_rows == 0:
        raise ConfigError("no dead letter matches", hint="pytubemq pipeline dlq list FILE  shows them")
    if pipeline.source.format != "tubemq":
        raise ConfigError(
            f"pipeline {pipeline.name} reads {pipeline.source.format}: its dead letters are not messages of a topic",
            hint="redrive is for pipelines that read topics",
        )
    _refuse_foreign(taken)
    root = _root(pipeline)
    beside = root / f".{time.time_ns()}"
    for stage in _STAGES:
        rows = taken.rows.filter(pa.array([each == stage for each in taken.rows["stage"].to_pylist()], pa.bool_()))
        if rows.num_rows:
            (beside / stage / "rows").mkdir(parents=True)
            pq.write_table(_messages(rows), beside / stage / "rows" / "part-0.parquet")
    keys: dict[str, list[Key]] = {name: sorted(listed, key=repr) for name, listed in taken.keys.items()}
    (beside / "taken.json").write_text(json.dumps({"keys": keys, "rows": taken.rows.num_rows}), "utf-8")
    place = root / beside.name[1:]
    beside.rename(place)
    return Redrive(place, taken.rows.num_rows)


def unfinished(pipeline: Pipeline) -> Redrive | None:
    """Return a redrive that was killed, which is finished before another begins; None if there is none."""
    root = _root(pipeline)
    for place in sorted(root.iterdir()) if root.is_dir() else ():
        if place.name.startswith("."):
            shutil.rmtree(place)  # was never whole
        elif (place / "taken.json").exists():
            return Redrive(place, int(json.loads((place / "taken.json").read_text("utf-8"))["rows"]))
    return None


def _refuse_foreign(taken: Taken) -> None:
    """Refuse what is no dead letter: it cannot be sent again, and settling past it would lose it unseen."""
    stages = taken.rows["stage"].to_pylist()
    if FOREIGN not in stages:
        return
    before = stages.index(FOREIGN)
    drop = "pytubemq pipeline dlq drop FILE -n 1 --yes  removes it"
    raise ConfigError(
        f"after {before} dead letters comes a message that is not one: {taken.rows['detail'][before].as_py()}",
        hint=f"redrive those before it with -n {before}; then  {drop}" if before else drop,
    )


def _messages(rows: Any) -> Any:
    def column(name: str, kind: Any) -> Any:
        return rows[name].cast(kind) if name in rows.column_names else pa.nulls(rows.num_rows, kind)

    stamp = pa.timestamp("us", tz="UTC")
    names = {
        "topic": pa.string(), "brokerId": pa.int32(), "partition": pa.int32(), "offset": pa.int64(),
        "timestamp": stamp, "msgTime": stamp, "msgType": pa.string(), "attributes": pa.map_(pa.string(), pa.string()),
    }  # fmt: skip
    columns = {name: column(name, kind) for name, kind in names.items()}
    return pa.table(columns | {"body": column("raw", pa.binary())})


def _root(pipeline: Pipeline) -> Path:
    assert pipeline.state is not None
    if "://" in pipeline.state:
        raise ConfigError(
            f"the state {pipeline.state} is not on this machine: a redrive is staged there",
            hint="run it where the state is a directory",
        )
    return Path(pipeline.state) / DIRECTORY
