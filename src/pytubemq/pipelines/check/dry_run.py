"""A dry run: the cluster is asked, a few real messages are read and put through every step, and each sink is looked at.

The invariant: nothing is written, no group's position is touched, and no progress is made. One part that fails does not
keep the others from being looked at.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError, TubeError
from pytubemq.model.offset import OFFSET_UNIT, messages_between
from pytubemq.pipelines.analysis.guarantees import promise_of, source_kind
from pytubemq.pipelines.analysis.missing import MissingError, MissingStartError
from pytubemq.pipelines.check.cases import collected, decoded
from pytubemq.pipelines.check.compiling import compiled
from pytubemq.pipelines.file.faults import Severity
from pytubemq.pipelines.file.model import DEAD_LETTER, INPUT, Guarantee, OnError
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.frames.source import open_source
from pytubemq.pipelines.frames.state_need import keeps_state
from pytubemq.pipelines.frames.steps import apply_steps, input_of, make_tables
from pytubemq.pipelines.plan.cluster_state import look
from pytubemq.pipelines.plan.planned import percent
from pytubemq.pipelines.rules.registry import BEFORE_SPARK, EVERYTHING, error_of, faults_of
from pytubemq.pipelines.rules.rule import Compiled, Context, Need
from pytubemq.pipelines.run.session import session_of
from pytubemq.pipelines.sinks.sink_factory import make_dead_letters, make_sink
from pytubemq.pipelines.spark_faults import TooManyRejectedError, format_error
from pytubemq.pipelines.state.files import open_files
from pytubemq.pipelines.state.state_location import state_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import DeadLetter, Pipeline, Sink
    from pytubemq.pipelines.file.source_positions import Places
    from pytubemq.pipelines.plan.cluster_state import Looked
    from pytubemq.pipelines.sinks.sink_writer import SinkWriter
    from pytubemq.pipelines.state.files import StateFiles

MESSAGES: Final = 10
"""Messages that are read by default."""
MOST_ROWS: Final = 100_000
"""Rows of those messages that are checked at most."""


@dataclass(frozen=True, slots=True)
class Check:
    """One part that was looked at."""

    name: str
    text: str
    error: TubeError | None = None

    @property
    def passed(self) -> bool:
        """True if nothing is wrong with it."""
        return self.error is None


def dry_run(
    pipeline: Pipeline, places: Places | None = None, *, messages: int = MESSAGES, spark: SparkSession | None = None
) -> Iterator[Check]:  # fmt: skip
    """Look at every part of a pipeline, one after the other; a part that fails does not end it.

    Args:
        pipeline: as `open_pipeline` returns it, or made in Python; its Masters and state named.
        places: where the file has each key, for errors. A pipeline without them is also checked as a file would be.
        messages: how many are read.
        spark: the session; as a run would have it, if None.
    """
    already = Need.NOTHING if places is None else Need.FILE
    with contextlib.nullcontext(spark) if spark is not None else session_of(pipeline) as session:
        run = _DryRun(session, pipeline, places or unplaced(pipeline), messages)
        yield from run.source(already)
        yield from run.steps()
        yield from run.sinks()
        yield from run.rest()


class _DryRun:
    def __init__(self, spark: SparkSession, pipeline: Pipeline, places: Places, messages: int) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._places = places
        self._messages = messages
        self._input: DataFrame | None = None
        self._rows_of: Mapping[str, DataFrame] = {}
        self._streams: Mapping[str, DataFrame] = {}
        self._stream: DataFrame | None = None
        self._kind = source_kind(pipeline, java=False)
        self._stateful: frozenset[str] = frozenset()
        self._state: StateFiles | None = None
        self._faults: list[Fault] = []
        """Errors that rules have found and that are not reported yet."""

    def source(self, already: Need = Need.FILE) -> Iterator[Check]:
        """Check the cluster, some messages, and what they decode to."""
        pipeline = self._pipeline
        opened = _check_part("state", self._open_state)
        if not opened.passed:
            yield opened
        self._ask(BEFORE_SPARK, already=already)
        if pipeline.source.format == "tubemq":
            looked: list[Looked] = []
            yield _check_part("source", lambda: self._look(looked))
            if not looked:
                return
            self._kind = source_kind(pipeline, java=looked[0].java)
            pipeline = replace(pipeline, source=_last_messages(pipeline, looked[0], self._messages))
        yield _check_part("read", lambda: self._read(pipeline))

    def _open_state(self) -> str:
        self._state = open_files(state_location(self._pipeline))
        return self._state.location

    def _look(self, looked: list[Looked]) -> str:
        self._refuse("source")
        try:
            found = look(self._pipeline, self._state)
        except MissingStartError as error:
            error.put(self._places)
            raise
        looked.append(found)
        there = sum((one.end - one.first) // OFFSET_UNIT for one in found.partitions)
        return f"{_count(len(found.partitions), 'partition')}, {_count(there, 'message')}"

    def _ask(self, sees: Need, *, already: Need, compiled: Compiled | None = None) -> None:
        """Run the rules; the part that a fault belongs to reports it."""
        if self._state is None:
            sees &= ~Need.PROGRESS
        context = Context(self._pipeline, self._places, sees, self._state, compiled)
        found = faults_of(context, already=already)
        self._faults += [fault for fault in found if fault.severity is Severity.ERROR]

    def _refuse(self, part: str) -> None:
        """Refuse a part of the file of which a rule has found an error."""
        found = [fault for fault in self._faults if _part_of(fault) == part]
        self._faults = [fault for fault in self._faults if fault not in found]
        if found:
            error = error_of(*found)
            if isinstance(error, MissingError):
                error.put(self._places)
            raise error

    def rest(self) -> Iterator[Check]:
        """Yield what rules have found in other parts of the file."""
        for part in dict.fromkeys(map(_part_of, self._faults)):
            yield _check_part(part, partial(self._refused, part))

    def _refused(self, part: str) -> str:
        self._refuse(part)
        return ""

    def _read(self, pipeline: Pipeline) -> str:
        opened = open_source(self._spark, pipeline, streaming=False)
        whole = pipeline.source.format == "tubemq"  # `_last_messages` bounds it, and a message may hold many records
        rows = opened.rows.limit(MOST_ROWS if whole else self._messages).cache()
        table, _ = collected(rows)
        self._input = opened.accepted(rows)
        if not opened.decoded:
            return _count(len(table), "message" if whole else "row")
        return decoding_summary(pipeline, [row["_error"] for row in table])

    def steps(self) -> Iterator[Check]:
        """Check each step on those messages; on none where there are none."""
        yield from (
            _check_part(f"table {table.name}", self._table_reader(table.name)) for table in self._pipeline.tables
        )
        try:
            rows = self._input if self._input is not None else decoded(self._spark, self._pipeline, ())[0]
            self._rows_of = compiled(rows, self._pipeline, self._places)
        except TubeError as error:
            yield Check("steps", "", error)
            return
        for step in self._pipeline.steps:
            yield _check_part(f"step {step.name}", self._counter(step.name))
        if self._input is not None:
            yield _check_part("stream", self._as_stream)

    def _table_reader(self, name: str) -> Callable[[], str]:
        def read() -> str:
            only = replace(self._pipeline, tables=tuple(one for one in self._pipeline.tables if one.name == name))
            make_tables(self._spark, only)
            return f"{len(self._spark.table(name).columns)} columns"

        return read

    def _counter(self, name: str) -> Callable[[], str]:
        return lambda: _count(len(collected(self._rows_of[name])[0]), "row")

    def _as_stream(self) -> str:
        """Compile the steps on a stream, too, and report which of them need state there."""
        opened = open_source(self._spark, self._pipeline)
        made = apply_steps(opened.accepted(), self._pipeline)
        kept = [name for name, rows in made.items() if name != INPUT and keeps_state(rows)]
        self._streams, self._stream, self._stateful = made, opened.rows, frozenset(kept)
        return f"{', '.join(kept)} keeps state" if kept else "each row separately"

    def sinks(self) -> Iterator[Check]:
        """Check that each sink can be reached and written, and takes the rows."""
        schemas = {step: rows.schema for step, rows in self._rows_of.items()}
        compiled = Compiled(self._spark, schemas, self._stream, self._streams, self._stateful)
        self._ask(EVERYTHING, already=BEFORE_SPARK, compiled=compiled)
        for sink in self._pipeline.sinks:
            step = input_of(self._pipeline, sink.input)
            make = partial(self._sink, sink)
            yield _check_part(f"sink {sink.name}", self._checker(make, schemas.get(step)))
        if self._pipeline.dead_letter is not None and self._pipeline.decode is not None:
            from pytubemq.spark.spark_types import DEAD_LETTER_SCHEMA

            letters = partial(self._letters, self._pipeline.dead_letter)
            yield _check_part(DEAD_LETTER, self._checker(letters, DEAD_LETTER_SCHEMA))

    def _letters(self, letters: DeadLetter) -> SinkWriter:
        self._refuse(DEAD_LETTER)
        return make_dead_letters(letters, beside=f"{self._pipeline.state}/{DEAD_LETTER}")

    def _sink(self, sink: Sink) -> SinkWriter:
        self._refuse(f"sink {sink.name}")
        return make_sink(sink)

    def _checker(self, make: Callable[[], SinkWriter], schema: StructType | None) -> Callable[[], str]:
        def check() -> str:
            writer = make()
            writer.check(self._spark, schema)
            promised = {writer.guarantee, promise_of(writer.spec, source=self._kind).guarantee}
            weaker = Guarantee.AT_LEAST_ONCE if Guarantee.AT_LEAST_ONCE in promised else Guarantee.EXACTLY_ONCE
            return f"{writer.spec.format} can be written, {weaker.value.replace('_', ' ')}"

        return check


def _part_of(fault: Fault) -> str:
    """Return the part of a dry run that a fault belongs to: `source`, `sink lake`."""
    head, _, rest = fault.key.partition(".")
    return f"{head.removesuffix('s')} {rest.partition('.')[0]}" if head in {"tables", "steps", "sinks"} else head


def decoding_summary(pipeline: Pipeline, errors: Sequence[Any]) -> str:
    """Summarize the decoding of some messages: `errors` has for each row None, or why it was rejected.

    Raises:
        TooManyRejectedError: not one was decoded, or the file lets none be rejected.
    """
    bad = [error for error in errors if error is not None]
    fine = f"{_count(len(errors) - len(bad), 'row')} decoded"
    if not bad:
        return fine
    reasons = Counter(error["reason"] for error in bad)
    summary = f"{fine}, {len(bad)} rejected: {', '.join(f'{why} {number}' for why, number in sorted(reasons.items()))}"
    more = [f"as: {bad[0]['detail']}"]
    decode, letters = pipeline.decode, pipeline.dead_letter
    none_allowed = decode is not None and decode.on_error is OnError.FAIL
    if none_allowed:
        more.append("with on_error: fail the first one ends the run")
    elif letters is not None and letters.max_ratio is not None and len(bad) > letters.max_ratio * len(errors):
        more.append(f"more than {percent(letters.max_ratio)} of a batch end the run")
    text = "; ".join([summary, *more])
    if len(bad) == len(errors) or none_allowed:
        raise TooManyRejectedError(
            text, hint="make `decode` fit the messages: pytubemq pipeline tap FILE rejected  shows them"
        )
    return text


def _check_part(name: str, look_at: Callable[[], str]) -> Check:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return Check(name, look_at())
    except TubeError as error:
        return Check(name, "", error)
    except (Py4JError, PySparkException) as error:
        return Check(name, "", ConfigError(f"{name}: {format_error(error)}"))


def _last_messages(pipeline: Pipeline, looked: Looked, messages: int) -> Any:
    """Return the source from so many messages before its end, in all, to its end as it is now."""
    there = {one.partition: messages_between(one.first, one.end) for one in looked.partitions}
    taken = shares(there, messages)
    start = {one.partition: one.end - taken[one.partition] * OFFSET_UNIT for one in looked.partitions}
    return replace(pipeline.source, start=start, end={one.partition: one.end for one in looked.partitions})


def shares(there: Mapping[str, int], wanted: int) -> dict[str, int]:
    """Divide `wanted` among all as evenly as what each has allows; all that they have if that is less."""
    taken = {}
    for left, name in zip(range(len(there), 0, -1), sorted(there, key=lambda name: there[name]), strict=True):
        taken[name] = min(there[name], -(-wanted // left))
        wanted -= taken[name]
    return taken


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
