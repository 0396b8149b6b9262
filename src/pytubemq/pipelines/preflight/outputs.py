"""What goes into sinks, looked at as plans before anything begins: no sink has a batch when another refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.frames.state_need import keeps_state
from pytubemq.pipelines.preflight.loops import check_loop, keeps_topic
from pytubemq.pipelines.sinks.repeats import check_repeats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pytubemq.pipelines.file.model import Pipeline, Sink


def check_output(pipeline: Pipeline, sink: Sink, rows: DataFrame | None, source: DataFrame | None) -> None:
    """Refuse what a sink cannot take of its rows, beyond their columns.

    Args:
        pipeline: with its source.
        sink: or the dead letters, as a sink.
        rows: what it will get, as a stream; None where they are no step's.
        source: the source's rows, of which those are made.

    Raises:
        ConfigError: they would come back as new ones, or are others when a batch is done again.
    """
    if sink.format != "tubemq":
        return
    came_from = False
    if rows is not None and source is not None and pipeline.source.format == "tubemq":
        came_from = keeps_topic(rows, source)
    check_loop(pipeline, sink, came_from=came_from)
    if rows is not None:
        check_repeats(sink, rows, whole=keeps_state(rows))
