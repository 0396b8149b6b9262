"""The port of a sink: what the engine asks of it.

The invariant: `write` of the same batch (pipeline id, batch id) leaves the target as one `write` does, whatever was
killed in between; a sink that cannot keep this says `AT_LEAST_ONCE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Guarantee, Sink


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Facts of the run that a sink writes for."""

    spark: SparkSession
    pipeline_id: str
    """Stays over restarts; changes when the progress is reset."""
    map_only: bool = True
    """True if each row comes from one message in the message's order, and a replay divides messages among tasks as the
    first try did, so that it numbers rows alike."""
    checkpoint: str | None = None
    """Spark's directory for the progress of the query whose batch it is; None where there is no such query."""
    deterministic: bool = True
    """True if what Spark did before the batch was handed over gives the same rows again."""


def batch_label(pipeline_id: str) -> str:
    """Return a short name of a pipeline's progress, one that no reader takes for a number or a date."""
    return f"q{pipeline_id.replace('-', '')[-12:]}"


class SinkWriter(Protocol):
    """One sink of a pipeline, on the driver."""

    @property
    def spec(self) -> Sink:
        """The sink as the file describes it."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """The promise of this sink as it is set up, and, once it was checked, as its target was found."""
        ...

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """Check that the target can be reached and written, and that rows of `schema` fit it.

        It leaves nothing there: what is made to see whether something can be made is taken away again.

        Raises:
            ConfigError: it cannot; with the remedy.
        """
        ...

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Put a batch in the target, whole or not at all where the target allows; returns the rows written.

        Raises:
            TubeError: the rows do not fit, or the target refused them.
        """
        ...

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return the rows of the batch if the target has it, whole, from an earlier try; None if not, or not known."""
        ...
