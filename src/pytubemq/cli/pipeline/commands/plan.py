"""`pytubemq pipeline plan`: a run in advance."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_lines, emit_object
from pytubemq.cli.pipeline.options import file_argument, need_spark, on_path, set_option
from pytubemq.errors import NotFoundError

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.places import Places


@click.command()
@file_argument
@click.option("--offline", is_flag=True, help="Ask no cluster: no partitions, no messages that wait.")
@click.option("--schema", is_flag=True, help="Start Spark to show the columns of each step, too.")
@set_option
@global_options
def plan(file: str, offline: bool, schema: bool, variables: dict[str, str]) -> None:
    """Show what a run of FILE would do: what it reads, where rows go, what each sink guarantees and why, and what has
    changed since the last run. Nothing is written.
    """
    from pytubemq.cli.pipeline.pipeline_file import open_pipeline
    from pytubemq.pipelines import load_checked
    from pytubemq.pipelines.operate.status import status
    from pytubemq.pipelines.plan.look import look
    from pytubemq.pipelines.plan.planned import plan as planned
    from pytubemq.pipelines.plan.words import words
    from pytubemq.pipelines.rules.registry import refuse
    from pytubemq.pipelines.rules.rule import Context, Need
    from pytubemq.pipelines.sinks.tubemq.repeat_safety import repeating
    from pytubemq.pipelines.state.fed_queries import fed_before
    from pytubemq.pipelines.state.files import SPEC, read_object, state_files

    options = current()
    loaded = load_checked(file, variables=variables)
    loaded.require()
    pipeline = open_pipeline(options, file, variables)
    assert pipeline.state is not None
    try:
        files = state_files(pipeline.state)
    except NotFoundError:
        files = None
    if schema or not offline:
        need_spark("pipeline plan")
    sees = Need.FILE | Need.VALUES | (Need.NOTHING if offline else Need.CLUSTER)
    refuse(Context(pipeline, loaded.places, sees), already=Need.FILE)
    looked = None if offline or pipeline.source.format != "tubemq" else look(pipeline, files)
    last = read_object(files, SPEC) or None if files is not None else None
    columns = _columns(pipeline, loaded.places, file) if schema else None
    fed = fed_before(files) if files is not None else None
    again = repeating(pipeline) if not offline else ()
    running = files is not None and status(files).runs
    made = planned(
        pipeline, looked=looked, last=last, columns=columns, fed=fed, repeating=again, running=running
    )  # fmt: skip
    if options.output in {None, "table"}:
        emit_lines(words(made))
    else:
        emit_object(options, made.as_json(), name="name")


def _columns(pipeline: Pipeline, places: Places, file: str) -> dict[str, str]:
    """Return the columns of `input` and of each step."""
    from pytubemq.cli.pipeline.spark_log import spark_log

    on_path(file)
    with tempfile.TemporaryDirectory(prefix="pytubemq-plan-") as scratch, spark_log(Path(scratch) / "spark.log"):
        from pytubemq.pipelines.check.cases import decoded
        from pytubemq.pipelines.check.compiling import compiled
        from pytubemq.pipelines.check.session import local_session
        from pytubemq.pipelines.frames.steps import make_tables

        with local_session(pipeline, with_packages=bool(pipeline.tables)) as spark:
            make_tables(spark, pipeline)
            rows, _ = decoded(spark, pipeline, ())
            return {name: made.schema.simpleString()[7:-1] for name, made in compiled(rows, pipeline, places).items()}
