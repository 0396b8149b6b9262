"""The columns that a sink names, against those that its rows have; told with their place in the file."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pytubemq.spark.pipeline.spec.faults import FaultCode, PipelineFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.spark.pipeline.spec.model import Sink
    from pytubemq.spark.pipeline.spec.places import Places


def check_named(number: int, sink: Sink, columns: Sequence[str], places: Places) -> None:
    """Refuse `partition_by` and `keys` that no row has.

    Args:
        number: the sink's, in the file.
        sink: which names columns.
        columns: of its rows; Spark takes upper and lower case for the same.
        places: of the file.

    Raises:
        PipelineFileError: naming line and column of each.
    """
    there = {name.lower() for name in columns}
    faults = []
    for key, names in (("partition_by", sink.partition_by), ("keys", sink.keys)):
        for at, name in enumerate(names):
            if name.lower() in there:
                continue
            near = next(iter(difflib.get_close_matches(name, columns, 1)), None)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(columns)}"
            text = f"no row has the column {name}"
            faults.append(places.fault(FaultCode.SINK_NOT_READY, f"sinks[{number}].{key}[{at}]", text, hint))
    if faults:
        raise PipelineFileError(tuple(faults))
