"""Which sinks tell rows by their number in the batch, and so need a batch done again to have the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.spark.pipeline.spec.model import SinkFormat

if TYPE_CHECKING:
    from pytubemq.spark.pipeline.spec.model import Sink


def by_number(sink: Sink) -> bool:
    """Whether a sink does: a topic, unless a column tells rows apart, or nothing does."""
    of_topic = sink.format is SinkFormat.TUBEMQ and sink.idempotency_key is None
    return of_topic and sink.options.get("idempotent", "true").lower() != "false"
