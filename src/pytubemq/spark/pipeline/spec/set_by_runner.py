"""Options that the runner gives to what a sink writes with: its promise rests on them, so no file sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.spark.pipeline.spec.model import SinkFormat

if TYPE_CHECKING:
    from pytubemq.spark.pipeline.spec.model import DeadLetter, Sink

SET_BY_RUNNER: Final[dict[SinkFormat, frozenset[str]]] = {
    SinkFormat.DELTA: frozenset({"path", "txnappid", "txnversion", "usermetadata"}),
    SinkFormat.TUBEMQ: frozenset({"planismaponly", "queryid", "batchid", "checkpointlocation"}),
}
"""In lower case: Spark takes upper and lower case of an option for the same."""


def set_by_runner(sink: Sink | DeadLetter) -> tuple[str, ...]:
    """Those among the options of a sink, as it writes them."""
    reserved = SET_BY_RUNNER.get(sink.format, frozenset())
    return tuple(name for name in sink.options if name.lower() in reserved)
