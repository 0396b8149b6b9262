"""The columns that a sink names and no row has, told with their place in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.spark.pipeline.run.before.columns import NoColumnError, check_columns
from pytubemq.spark.pipeline.spec.faults import FaultCode, PipelineFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.spark.pipeline.spec.model import Pipeline, Sink
    from pytubemq.spark.pipeline.spec.places import Places


def check_named(number: int, sink: Sink, columns: Sequence[str], places: Places) -> None:
    """As `check_columns`, for the sink of this number in the file.

    Raises:
        PipelineFileError: naming line and column of each.
    """
    try:
        check_columns(sink, columns)
    except NoColumnError as error:
        raise _placed(error, number, places) from error


def columns_at_their_place(error: NoColumnError, pipeline: Pipeline, places: Places) -> PipelineFileError:
    """Columns that a run did not find, with line and column in the file."""
    number = next(at for at, sink in enumerate(pipeline.sinks) if sink.name == error.sink)
    return _placed(error, number, places)


def _placed(error: NoColumnError, number: int, places: Places) -> PipelineFileError:
    code = FaultCode.SINK_NOT_READY
    return PipelineFileError(
        tuple(places.fault(code, f"sinks[{number}].{key}", message, hint) for key, message, hint in error.columns)
    )
