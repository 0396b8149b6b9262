"""The tests of a pipeline file: messages decoded and put through the steps as a run does it, and compared.

The invariant: no cluster is asked and no sink is touched; what a test shows of decoding and steps is what a run does,
as both use the same code.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pytubemq.errors import ConfigError, TubeError
from pytubemq.pipelines.check.compare import Mismatch, compare
from pytubemq.pipelines.check.compiling import compiled
from pytubemq.pipelines.check.given_messages import messages
from pytubemq.pipelines.check.session import local_session
from pytubemq.pipelines.file.model import DEAD_LETTER, OnError
from pytubemq.pipelines.file.secrets import resolve_all
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.frames.steps import input_of, make_tables
from pytubemq.pipelines.rules.registry import refuse
from pytubemq.pipelines.rules.rule import Compiled, Context, Need
from pytubemq.pipelines.spark_faults import format_error
from pytubemq.pipelines.values import python_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pytubemq.pipelines.file.model import Case, Pipeline
    from pytubemq.pipelines.file.source_positions import Places

TOPIC: Final = "test"
"""The topic of a test's messages where the source reads a pattern."""
_SEEN: Final = Need.FILE | Need.VALUES | Need.SESSION


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one test."""

    name: str
    line: int
    seconds: float
    mismatches: Mapping[str, Sequence[Mismatch]]
    """By sink; those without any are left out."""
    error: TubeError | None = None
    """What kept it from coming out at all."""

    @property
    def passed(self) -> bool:
        """True if everything was as expected."""
        return not self.mismatches and self.error is None


def run_tests(
    pipeline: Pipeline, places: Places | None = None, *, only: str = "", spark: SparkSession | None = None
) -> Iterator[CaseResult]:
    """Run the tests of a pipeline, one after the other, without a cluster.

    Args:
        pipeline: with the tests.
        places: where the file has each key, for lines and errors. A pipeline without them is also checked as a file
            would be.
        only: run the tests with this text in their name.
        spark: the session; one on this machine, if None.
    """
    chosen = [(index, case) for index, case in enumerate(pipeline.tests) if only in case.name]
    tables = any(table.name not in case.tables for _, case in chosen for table in pipeline.tables)
    already = Need.NOTHING if places is None else Need.FILE
    places = places or unplaced(pipeline)
    opened = contextlib.nullcontext(spark) if spark is not None else local_session(pipeline, with_packages=tables)
    with opened as session:
        for index, case in chosen:
            line = places.of(f"tests[{index}]").key.line
            yield _run_test(session, pipeline, case, places, already=already, line=line)


def _run_test(
    spark: SparkSession, pipeline: Pipeline, case: Case, places: Places, *, already: Need, line: int
) -> CaseResult:
    begun = time.perf_counter()
    mismatches: dict[str, Sequence[Mismatch]] = {}
    error = None
    try:
        mismatches = _mismatches(spark, pipeline, case, places, already)
    except TubeError as wrong:
        error = wrong
    return CaseResult(case.name, line, time.perf_counter() - begun, mismatches, error)


def _mismatches(
    spark: SparkSession, pipeline: Pipeline, case: Case, places: Places, already: Need
) -> dict[str, Sequence[Mismatch]]:
    rows, rejected = decoded(spark, pipeline, case.given)
    _tables(spark, pipeline, case)
    made = compiled(rows, pipeline, places)
    compiled_steps = Compiled(spark, {step: rows.schema for step, rows in made.items()})
    refuse(Context(pipeline, places, _SEEN, compiled=compiled_steps), already=already)
    found: dict[str, Sequence[Mismatch]] = {}
    for sink in pipeline.sinks:
        if sink.name in case.expect:
            actual, columns = collected(made[input_of(pipeline, sink.input)])
            found[sink.name] = compare(case.expect[sink.name], actual, columns)
    if DEAD_LETTER in case.expect:
        found[DEAD_LETTER] = compare(case.expect[DEAD_LETTER], rejected.to_pylist(), rejected.schema.names)
    return {name: mismatches for name, mismatches in found.items() if mismatches}


def decoded(
    spark: SparkSession, pipeline: Pipeline, given: Sequence[Mapping[str, Any]]
) -> tuple[DataFrame, pa.Table]:  # fmt: skip
    """Return `input` of the first step and the dead letters, decoded from messages, or made of rows for other sources.

    Raises:
        ConfigError: a message is not one, or is rejected where on_error is fail.
    """
    from pytubemq.decode.dead_letter_columns import DEAD_LETTER_ARROW

    none = DEAD_LETTER_ARROW.empty_table()
    source, decode = pipeline.source, pipeline.decode
    if source.format != "tubemq":
        return _of_rows(spark, given, source.schema), none
    batch = messages(given, topic=source.topics[0] if source.topics else TOPIC)
    if decode is None or decode.format == "raw":
        names = source.columns or tuple(name for name in batch.schema.names if name != "messageId")
        return _frame(spark, pa.Table.from_batches([batch]).select(list(names))), none
    from pytubemq.decode import make_decoder

    options = resolve_all(decode.options)
    decoder = make_decoder(decode.format, schema=decode.schema, inner=decode.inner, options=options)
    done = decoder.decode(batch, keep=source.columns)
    rejected = pa.Table.from_batches([done.rejected])
    if decode.on_error is OnError.FAIL and len(rejected):
        first = rejected.slice(0, 1).to_pylist()[0]
        raise ConfigError(
            f"record {first['offset']} is rejected, which ends a run: {first['reason']}: {first['detail']}",
            hint="the pipeline says on_error: fail",
        )
    kept = rejected if decode.on_error is OnError.DEAD_LETTER else none
    return _frame(spark, pa.Table.from_batches([done.rows])), kept


def collected(rows: DataFrame) -> tuple[list[dict[str, Any]], list[str]]:
    """Collect all rows as values, and the columns' names.

    Raises:
        ConfigError: Spark fails at them.
    """
    from pyspark.errors import PySparkException

    try:
        table = rows.toArrow()
    except PySparkException as error:
        raise ConfigError(
            f"the steps fail at these rows: {format_error(error)}", hint="check the step that the text names"
        ) from error
    return python_rows(table), list(table.schema.names)


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table)


def _of_rows(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: str | None) -> DataFrame:
    """Return rows by column; typed by a schema if there is one, else by what their values look like."""
    import json

    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    lines = _frame(spark, pa.table({"value": pa.array(texts, pa.string())}))
    if schema:
        from pyspark.sql import functions as f

        return lines.select(f.from_json("value", schema).alias("row")).select("row.*")
    return spark.createDataFrame(pa.Table.from_pylist([dict(row) for row in rows]))


def _tables(spark: SparkSession, pipeline: Pipeline, case: Case) -> None:
    from dataclasses import replace

    read = tuple(table for table in pipeline.tables if table.name not in case.tables)
    make_tables(spark, replace(pipeline, tables=read))
    for table in pipeline.tables:
        if table.name in case.tables:
            _of_rows(spark, case.tables[table.name], table.schema).createOrReplaceTempView(table.name)
