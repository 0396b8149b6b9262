"""The columns that a sink names and no row has, told with their place in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode, PipelineFileError
from pytubemq.pipelines.preflight.columns import NoColumnError, check_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.pipelines.file.model import Pipeline, Sink
    from pytubemq.pipelines.file.places import Places


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
