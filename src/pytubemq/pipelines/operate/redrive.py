"""Dead letters put through the pipeline again.

The invariants: a dead letter leaves the table only after every sink has what became of it; a redrive that was killed is
finished, with the same rows, before another begins, and its sinks get nothing twice, since it is a run with a state of
its own. What is rejected again comes back as a new dead letter.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pytubemq.errors import ConfigError, TubeError
from pytubemq.pipelines.events import RunStatus
from pytubemq.pipelines.file.model import DEAD_LETTER, Source, Trigger, TriggerKind
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.operate.dead_letter_store import dead_letter_beside, dead_letters_of
from pytubemq.pipelines.operate.dead_letters import FOREIGN
from pytubemq.pipelines.rules.registry import refuse
from pytubemq.pipelines.rules.rule import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.pipelines.events import RunResult
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.operate.dead_letters import DeadLetters, Key, Taken

DIRECTORY: Final = "redrive"
APART: Final = "a redrive"
"""The run in words."""
SCHEMA: Final = (
    "topic STRING, brokerId INT, partition INT, offset BIGINT, timestamp TIMESTAMP, msgTime TIMESTAMP, msgType STRING, "
    "attributes MAP<STRING, STRING>, body BINARY"
)
"""A dead letter as the message that it was; the message's own time and type are not known any more."""
NOT_KEPT: Final = {"messageId": "BIGINT"}
"""Columns that a source has if they are chosen, and dead letters have not: null here."""
_STAGES: Final = ("message", "record")


@dataclass(slots=True)
class Redriven:
    """The results of dead letters that were put through again."""

    letters: int = 0
    rows_out: dict[str, int] = field(default_factory=dict)
    """Rows that they became, by sink."""
    rejected: int = 0
    """Records that were rejected again."""

    def add(self, more: Redriven) -> None:
        """Add the results of some others of them."""
        self.letters += more.letters
        for sink, rows in more.rows_out.items():
            if sink != DEAD_LETTER:
                self.rows_out[sink] = self.rows_out.get(sink, 0) + rows
        self.rejected += more.rejected

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for machines."""
        return {"redriven": self.letters, "rows_out": self.rows_out, "rejected_again": self.rejected}


@dataclass(frozen=True, slots=True)
class Redrive:
    """Dead letters on their way through the pipeline again."""

    place: Path
    rows: int
    apart: ClassVar[str] = APART
    """Its run in words, for `run_pipeline`."""

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

    def carry_out(self, pipeline: Pipeline, run: Callable[[Pipeline], RunResult]) -> Redriven:
        """Run all of it, then remove the dead letters.

        Args:
            pipeline: the pipeline that they are of.
            run: runs a pipeline once, over what is there, as `run_pipeline` with `apart` does.

        Raises:
            TubeError: it was stopped or failed; they all stay, and the next redrive puts the rest of them through.
        """
        done = Redriven()
        try:
            for stage in self.stages():
                result = run(self.pipeline(pipeline, stage))
                if result.status is RunStatus.STOPPED:
                    raise TubeError(
                        "the redrive was stopped: no dead letter is removed yet",
                        hint="the next redrive finishes it; sinks that are exactly once get no row twice",
                    )
                done.add(Redriven(0, dict(result.totals.rows_out), result.totals.rejected))
        except ConfigError:
            self.give_up()
            raise
        done.letters = self.finish(dead_letters_of(pipeline))
        return done

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


def unfinished_redrive(pipeline: Pipeline) -> Redrive | None:
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
