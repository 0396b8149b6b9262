"""`pytubemq pipeline tap`: rows at a stage, of a few real messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.options import GlobalOptions, current, global_options
from pytubemq.cli.output.output import emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.pipeline.command_arguments import file_argument, need_spark, set_option
from pytubemq.cli.pipeline.pipeline_file import open_file

if TYPE_CHECKING:
    from pytubemq.pipelines import Pipeline


@click.command()
@file_argument
@click.argument("stage", default="input")
@click.option("-n", "--messages", type=click.IntRange(1, 10_000), default=10, show_default=True, metavar="N",
              help="Number of messages to read.")  # fmt: skip
@click.option("--newest", is_flag=True, help="Read the newest messages, instead of those at the pipeline's start.")
@set_option
@global_options
def tap(file: str, stage: str, messages: int, newest: bool, variables: dict[str, str]) -> None:
    """Read a few real messages and show the rows that they become at STAGE of the pipeline of FILE. Writes nothing.

    STAGE is `source` (the messages as they are), `input` (decoded, the default), a step, a sink, or `rejected`.
    """
    options = current()
    pipeline = open_file(options, file, variables)
    need_spark("pipeline tap")
    rows = _rows(options, pipeline, stage, messages, newest=newest)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    emit_rows(options, rows, columns, name=columns[0] if columns else "")
    options.say(f"{count_of(len(rows), 'row')} at {stage}, of up to {count_of(messages, 'message')}")


def _rows(options: GlobalOptions, pipeline: Pipeline, stage: str, messages: int, *, newest: bool) -> list[Any]:
    from pytubemq.cli.pipeline.spark_log import log_place, spark_log
    from pytubemq.pipelines import check_stage, tap_needs_spark
    from pytubemq.pipelines import tap as rows_at

    check_stage(pipeline, stage)
    if not tap_needs_spark(pipeline, stage):
        return rows_at(pipeline, stage, messages=messages, newest=newest)
    assert pipeline.state is not None
    options.say("starting Spark")
    with spark_log(log_place(pipeline.state, pipeline.name)):
        return rows_at(pipeline, stage, messages=messages, newest=newest)
