"""`pytubemq pipeline plan`: a run in advance."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_lines, emit_object
from pytubemq.cli.pipeline.command_arguments import file_argument, need_spark, set_option

if TYPE_CHECKING:
    from pytubemq.pipelines import Pipeline, Places


@click.command()
@file_argument
@click.option("--offline", is_flag=True, help="Do not ask the cluster: leave out partitions and waiting messages.")
@click.option("--schema", is_flag=True, help="Start Spark to show the columns of each step, too.")
@set_option
@global_options
def plan(file: str, offline: bool, schema: bool, variables: dict[str, str]) -> None:
    """Show what a run of FILE would do: what it reads, where rows go, what each sink guarantees and why, and what has
    changed since the last run. Nothing is written.
    """
    from pytubemq.cli.pipeline.pipeline_file import open_file
    from pytubemq.pipelines import load_checked, plan_lines, plan_run

    options = current()
    loaded = load_checked(file, variables=variables)
    loaded.require()
    pipeline = open_file(options, file, variables)
    if schema or not offline:
        need_spark("pipeline plan")
    planned = plan_run(pipeline, loaded.places, offline=offline)
    if schema:
        planned = planned.with_columns(_columns(pipeline, loaded.places, file))
    if options.output in {None, "table"}:
        emit_lines(plan_lines(planned))
    else:
        emit_object(options, planned.as_json(), name="name")


def _columns(pipeline: Pipeline, places: Places, file: str) -> dict[str, str]:
    """Return the columns of `input` and of each step, by Spark on this machine."""
    from pytubemq.cli.pipeline.spark_log import spark_log
    from pytubemq.pipelines import let_steps_import

    let_steps_import(file)
    with tempfile.TemporaryDirectory(prefix="pytubemq-plan-") as scratch, spark_log(Path(scratch) / "spark.log"):
        from pytubemq.pipelines import step_columns

        return step_columns(pipeline, places)
