"""The columns of each step, as Spark on this machine compiles them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.check.cases import decoded
from pytubemq.pipelines.check.compiling import compiled
from pytubemq.pipelines.check.session import local_session
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.frames.steps import make_tables

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.source_positions import Places


def step_columns(pipeline: Pipeline, places: Places | None = None) -> dict[str, str]:
    """Return the columns of `input` and of each step, as Spark writes them; for `Plan.with_columns`.

    Args:
        pipeline: as `open_pipeline` returns it, or made in Python.
        places: where the file has each key, for errors.

    Raises:
        PipelineFileError: a step does not compile.
    """
    with local_session(pipeline, with_packages=bool(pipeline.tables)) as spark:
        make_tables(spark, pipeline)
        rows, _ = decoded(spark, pipeline, ())
        made = compiled(rows, pipeline, places or unplaced(pipeline))
        return {name: table.schema.simpleString()[7:-1] for name, table in made.items()}
