"""The steps put on rows, one after the other: SQL over `input`, earlier steps and tables, or a Python function.

The invariant: the same steps come out of the same rows whether those are a stream or one batch of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import INPUT
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.spark_faults import StepError, of_spark, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from pytubemq.pipelines.file.model import Pipeline, Step, Watermark

MOST_REPORTED: Final = 20
"""So many columns are named where a step does not compile."""


def make_tables(spark: SparkSession, pipeline: Pipeline) -> None:
    """Make the pipeline's tables known by name.

    Raises:
        ConfigError: a table cannot be read.
    """
    from pyspark.errors import PySparkException

    for table in pipeline.tables:
        reader: Any = spark.read.format(table.format).options(**{k: resolve(v) for k, v in table.options.items()})
        if table.schema:
            reader = reader.schema(table.schema)
        try:
            rows = reader.load(resolve(table.path)) if table.path else reader.load()
            rows.createOrReplaceTempView(table.name)
        except PySparkException as error:
            raise of_spark(error, f"table {table.name}") from error


def apply_steps(rows: DataFrame, pipeline: Pipeline, *, until: str | None = None) -> dict[str, DataFrame]:
    """Apply the steps and return the rows after each, by its name; `input` is the source's.

    Args:
        rows: what the first step reads.
        until: the last step wanted; all if None.

    Raises:
        ConfigError: a step's SQL does not compile, or its function is not one from DataFrame to DataFrame.
    """
    made = {INPUT: rows}
    if until == INPUT:
        return made
    for step in pipeline.steps:
        rows = apply_step(rows, step)
        made[step.name] = rows
        rows.createOrReplaceTempView(step.name)
        if step.name == until:
            break
    return made


def input_of(pipeline: Pipeline, wanted: str | None) -> str:
    """Return the name of the step whose rows a sink takes; names are compared without regard to case."""
    names = [INPUT, *(step.name for step in pipeline.steps)]
    if wanted is None:
        return names[-1]
    return next((name for name in names if name.lower() == wanted.lower()), wanted)


def apply_step(rows: DataFrame, step: Step) -> DataFrame:
    """Apply one step to the rows."""
    from pyspark.errors import PySparkException

    mark = step.watermark
    early = mark is not None and mark.column in rows.columns
    if mark is not None and early:
        rows = _with_watermark(rows, mark, step.name)
    try:
        made = _sql(rows, resolve(step.sql)) if step.sql is not None else _python(step)(rows)
    except PySparkException as error:
        hint = _columns_of_input(rows) if step.sql is not None else None
        message = f"step {step.name} does not compile: {refused(error)}"
        raise StepError(message, step=step.name, hint=hint) from error
    if not hasattr(made, "createOrReplaceTempView"):
        raise ConfigError(
            f"step {step.name}: {step.python} gave {type(made).__name__}, not a DataFrame",
            hint="return the DataFrame that the function made",
        )
    return _with_watermark(made, mark, step.name) if mark is not None and not early else made


def _columns_of_input(rows: DataFrame) -> str:
    names = rows.columns
    more = f", and {len(names) - MOST_REPORTED} more" if len(names) > MOST_REPORTED else ""
    return f"its rows, `input`, have the columns {', '.join(names[:MOST_REPORTED])}{more}"


def _sql(rows: DataFrame, text: str) -> DataFrame:
    rows.createOrReplaceTempView(INPUT)
    return rows.sparkSession.sql(text)


def _with_watermark(rows: DataFrame, mark: Watermark, step: str) -> DataFrame:
    from pyspark.errors import PySparkException

    if mark.column not in rows.columns:
        raise ConfigError(
            f"step {step}: its watermark names the column {mark.column}, which is neither in its input nor in its rows",
            hint=f"the columns are {', '.join(rows.columns)}",
        )
    try:
        return rows.withWatermark(mark.column, mark.delay)
    except PySparkException as error:
        raise of_spark(error, f"step {step}: watermark") from error


def _python(step: Step) -> Callable[[DataFrame], DataFrame]:
    name = step.python or ""
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"step {step.name}: there is no {name}: {error}",
            hint="write python as module:function, and check that the module is on PYTHONPATH",
        ) from error
    if not callable(function):
        raise ConfigError(
            f"step {step.name}: {name} is not a function", hint="name a function from DataFrame to DataFrame"
        )
    wanted: Callable[[DataFrame], DataFrame] = function
    return wanted
