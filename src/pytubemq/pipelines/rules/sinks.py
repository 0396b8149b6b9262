"""Each sink: the keys that its format needs and takes, and whether it can promise what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.analysis.sink_targets import target_of
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import Guarantee, OnError, OnSchemaChange, SinkFormat
from pytubemq.pipelines.sinks.jdbc.options import REFUSED
from pytubemq.pipelines.sinks.object_stores import WHY, object_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import Pipeline, Sink
    from pytubemq.pipelines.file.places import Places

TAKES: Final[dict[SinkFormat, tuple[str, ...]]] = {
    SinkFormat.PARQUET: ("path", "partition_by", "layout", "on_schema_change"),
    SinkFormat.DELTA: ("path", "table", "partition_by", "keys", "on_schema_change"),
    SinkFormat.ICEBERG: ("table", "partition_by", "on_schema_change"),
    SinkFormat.JDBC: ("url", "table", "keys", "on_schema_change"),
    SinkFormat.KAFKA: ("topic", "keys"),
    SinkFormat.TUBEMQ: ("topic", "master", "idempotency_key"),
    SinkFormat.CONSOLE: (),
}
"""Beside name, format, input, guarantee and options."""
NEEDS: Final[dict[SinkFormat, tuple[tuple[str, ...], ...]]] = {
    SinkFormat.PARQUET: (("path",),),
    SinkFormat.DELTA: (("path", "table"),),
    SinkFormat.ICEBERG: (("table",),),
    SinkFormat.JDBC: (("url",), ("table",)),
}
"""One of each group must be there."""
_SPECIAL: Final = (
    "path", "table", "url", "topic", "master", "partition_by", "keys", "layout", "idempotency_key", "on_schema_change",
)  # fmt: skip


def check(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Faults of the sinks."""
    for index, sink in enumerate(pipeline.sinks):
        path = f"sinks[{index}]"
        yield from _keys(sink, path, places)
        yield from _promise(sink, path, places)
        yield from _writes(sink, index, pipeline, places)
    yield from _object_stores(pipeline, places)
    yield from _letters(pipeline, places)


def _keys(sink: Sink, path: str, places: Places) -> Iterator[Fault]:
    for group in NEEDS.get(sink.format, ()):
        if not any(getattr(sink, key) for key in group):
            text = f"of format {sink.format} needs the key {' or '.join(group)}"
            yield places.fault(FaultCode.SINK_LACKS_KEY, path, text)
    for key in _SPECIAL:
        if f"{path}.{key}" in places.by_path and key not in TAKES[sink.format]:
            takers = [kind.value for kind, keys in TAKES.items() if key in keys]
            text, hint = f"is nothing to a sink of format {sink.format}", f"it is a key of {', '.join(takers)}"
            yield places.fault(FaultCode.SINK_TAKES_NO_KEY, f"{path}.{key}", text, hint, at_key=True)
    if sink.format is SinkFormat.DELTA and sink.path and sink.table:
        yield places.fault(FaultCode.CONTRADICTION, f"{path}.table", "stands beside path", "keep one", at_key=True)
    if sink.layout == "log" and sink.on_schema_change is not OnSchemaChange.FAIL:
        text = "is nothing to layout log: Spark's file sink looks at no columns that are there"
        hint = "leave it out, or take layout batches"
        yield places.fault(FaultCode.CONTRADICTION, f"{path}.on_schema_change", text, hint, at_key=True)
    if sink.format is SinkFormat.PARQUET and sink.layout != "log" and "batch" in map(str.lower, sink.partition_by):
        text, hint = "names batch, the column that the directories of batches give to readers", "rename it in a step"
        yield places.fault(FaultCode.BAD_VALUE, f"{path}.partition_by", text, hint)
    if sink.format is SinkFormat.KAFKA and "kafka.bootstrap.servers" not in sink.options:
        text = "of format kafka needs options.kafka.bootstrap.servers"
        yield places.fault(FaultCode.SINK_LACKS_KEY, path, text, 'as {kafka.bootstrap.servers: "host:9092"}')
    if sink.format is SinkFormat.JDBC and sink.url and "${" not in sink.url and not sink.url.startswith("jdbc:"):
        yield places.fault(
            FaultCode.BAD_VALUE, f"{path}.url", "does not begin with jdbc:", "as jdbc:postgresql://host/db"
        )
    refused = [why for start, why in REFUSED.items() if (sink.url or "").startswith(start)]
    if sink.format is SinkFormat.JDBC and refused:
        text = f"names a database that is not supported: {refused[0]}"
        yield places.fault(FaultCode.BAD_VALUE, f"{path}.url", text, "take another database")


def _writes(sink: Sink, index: int, pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Two sinks in one place."""
    place = target_of(sink)
    for other, before in enumerate(pipeline.sinks[:index]):
        if place is not None and target_of(before) == place:
            key = "path" if sink.path else "table"
            text = f"is where the sink {pipeline.sinks[other].name} writes"
            yield places.fault(FaultCode.CONTRADICTION, f"sinks[{index}].{key}", text, "name another")


def _letters(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Dead letters in a sink's place."""
    letters = pipeline.dead_letter
    place = target_of(letters) if letters is not None else None
    for sink in pipeline.sinks:
        if letters is not None and place is not None and target_of(sink) == place:
            text = f"is where the sink {sink.name} writes"
            key = "path" if letters.path else "table"
            yield places.fault(FaultCode.CONTRADICTION, f"dead_letter.{key}", text, "name another")


def _object_stores(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Parquet in batches where no directory can be renamed in one step."""
    for index, sink in enumerate(pipeline.sinks):
        if sink.format is SinkFormat.PARQUET and sink.layout != "log" and object_store(sink.path):
            text = f"neither exactly nor at least once can be had in {object_store(sink.path)}: {WHY}"
            hint = "take format delta or iceberg, or layout: log for readers that are Spark"
            yield places.fault(FaultCode.GUARANTEE_IMPOSSIBLE, f"sinks[{index}].path", text, hint)
    letters, decode = pipeline.dead_letter, pipeline.decode
    if decode is None or decode.on_error is not OnError.DEAD_LETTER:
        return
    if letters is not None and letters.format not in {SinkFormat.PARQUET, SinkFormat.TUBEMQ}:
        return  # of a topic, those that are too long lie in files
    key = "state" if letters is None or letters.path is None else "dead_letter.path"
    store = object_store(pipeline.state if key == "state" else letters.path if letters else None)
    if store is not None:
        text = f"dead letters would lie in {store}: {WHY}"
        hint = "give dead_letter format: delta, or a path that is in none"
        yield places.fault(FaultCode.GUARANTEE_IMPOSSIBLE, key, text, hint)


def _promise(sink: Sink, path: str, places: Places) -> Iterator[Fault]:
    if sink.guarantee is not Guarantee.EXACTLY_ONCE:
        return
    from pytubemq.pipelines.analysis.guarantees import promise_of  # it needs this package's values itself

    promise = promise_of(sink)
    if promise.guarantee is not Guarantee.EXACTLY_ONCE:
        hint = promise.needs or "ask for at_least_once"
        text = f"exactly_once cannot be had: {promise.why}"
        yield places.fault(FaultCode.GUARANTEE_IMPOSSIBLE, f"{path}.guarantee", text, hint)
