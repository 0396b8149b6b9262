"""Which sinks tell rows by their number in the batch, and so need a batch done again to have the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.model import SinkFormat

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Sink


IDEMPOTENT = "idempotent"
"""The option of a topic's sink, in lower case."""


def by_number(sink: Sink) -> bool:
    """Whether a sink does: a topic, unless a column tells rows apart, or nothing does."""
    return sink.format is SinkFormat.TUBEMQ and sink.idempotency_key is None and is_idempotent(sink)


def is_idempotent(sink: Sink) -> bool:
    """Whether a topic's sink tells rows apart at all: it does if its options do not say otherwise, in any case."""
    given = {name.lower(): value for name, value in sink.options.items()}
    return given.get(IDEMPOTENT, "true").strip().lower() != "false"
