"""Steps compiled by Spark; what it refuses is reported with its place in the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.faults import FaultCode, PipelineFileError
from pytubemq.pipelines.file.model import INPUT
from pytubemq.pipelines.frames.steps import apply_step
from pytubemq.pipelines.spark_faults import StepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.source_positions import Places

_PLACE: Final = re.compile(r"\(?line (\d+),? pos (\d+)\)?")


def compiled(rows: DataFrame, pipeline: Pipeline, places: Places) -> dict[str, DataFrame]:
    """Compile the steps and return the rows after each, by its name, `input` too.

    Raises:
        PipelineFileError: a step does not compile; with its line and column in the file.
    """
    made = {INPUT: rows}
    for index, step in enumerate(pipeline.steps):
        try:
            rows = apply_step(rows, step)
        except ConfigError as error:
            raise _refused(error, f"steps[{index}]", step.sql is not None, places) from error
        made[step.name] = rows
        rows.createOrReplaceTempView(step.name)
    return made


def place_step_error(error: ConfigError, pipeline: Pipeline, places: Places) -> ConfigError:
    """Return the error of a step that a run could not make with its place in the file; another error as it is."""
    if not isinstance(error, StepError):
        return error
    at, step = next((at, step) for at, step in enumerate(pipeline.steps) if step.name == error.step)
    placed = _refused(error, f"steps[{at}]", step.sql is not None, places)
    for note in getattr(error, "__notes__", ()):
        placed.add_note(note)
    return placed


def _refused(error: ConfigError, path: str, is_sql: bool, places: Places) -> PipelineFileError:
    cause: Any = error.__cause__
    text = str(cause) if cause is not None else error.message
    message = error.message
    if not is_sql:
        key = f"{path}.python" if f"{path}.python" in places.by_path else path
        fault = places.fault(FaultCode.STEP_DOES_NOT_COMPILE, key, message)
        return PipelineFileError((fault,), hint=error.hint)
    found = _PLACE.search(text)
    at = places.inside(f"{path}.sql", int(found[1]), int(found[2]) + 1) if found else None
    if found is None and (line_column := _from_context(cause, places, path)) is not None:
        at = places.inside(f"{path}.sql", *line_column)
    fault = places.fault(FaultCode.STEP_DOES_NOT_COMPILE, f"{path}.sql", message, at=at)
    return PipelineFileError((fault,), hint=error.hint or "correct the query")


def _from_context(cause: Any, places: Places, path: str) -> tuple[int, int] | None:
    """Return the place that Spark gives beside its message: where the part that it names begins in the query."""
    try:
        start = int(cause.getQueryContext()[0].startIndex())
    except Exception:  # kinds of exceptions differ in what they offer; the step's own place remains
        return None
    return _line_column(places, path, start) if start >= 0 else None


def _line_column(places: Places, path: str, start: int) -> tuple[int, int] | None:
    sql = places.texts.get(f"{path}.sql")
    if sql is None or start > len(sql):
        return None
    return sql.count("\n", 0, start) + 1, start - (sql.rfind("\n", 0, start) + 1) + 1
