"""The guarantees in a run's record, by the Brokers that the run found at both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.guarantees import SourceKind, promise_of, source_kind
from pytubemq.pipelines.file.model import DeadLetter, Guarantee

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.report.record import RunRecord


def put_promises(record: RunRecord, pipeline: Pipeline) -> None:
    """Put what each sink guarantees into the record, by the Brokers that the run found at both ends."""
    kind = source_kind(pipeline, java=bool(record.java))
    unknown = record.java is None and kind is SourceKind.OURS
    letters = () if pipeline.decode is None else ((pipeline.dead_letter or DeadLetter()).as_sink(),)
    for sink in (*letters, *pipeline.sinks):
        drops_repeats = record.promised.get(sink.name) != Guarantee.AT_LEAST_ONCE.value
        promise = promise_of(sink, source=kind, drops_repeats=drops_repeats)
        needs = "needs: " if promise.guarantee is Guarantee.EXACTLY_ONCE else ""
        why = f"{promise.why}; {needs}{promise.needs}" if promise.needs else promise.why
        if unknown:
            why += "; the run did not record its Brokers: this is the guarantee with pytubemq Brokers"
        record.guarantees.append((sink.name, promise.guarantee.value.replace("_", " "), why))
