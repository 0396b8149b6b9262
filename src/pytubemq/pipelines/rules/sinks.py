"""Each sink: the keys that its format needs and takes, and whether it can promise what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.sink_targets import target_of
from pytubemq.pipelines.analysis.sink_values import wrong_dead_letters, wrong_values
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import DeadLetter, Guarantee, OnError
from pytubemq.pipelines.file.sink_table import sink_kind, sink_kinds
from pytubemq.pipelines.sinks.object_stores import WHY, object_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import Pipeline, Sink
    from pytubemq.pipelines.file.places import Places
    from pytubemq.pipelines.file.sink_kind import Wrong


def check(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Faults of the sinks."""
    for index, sink in enumerate(pipeline.sinks):
        path = f"sinks[{index}]"
        yield from _told(wrong_values(sink), path, places)
        yield from _foreign_keys(sink, path, places)
        yield from _promise(sink, path, places)
        yield from _writes(sink, index, pipeline, places)
    if pipeline.dead_letter is not None:
        yield from _told(wrong_dead_letters(pipeline.dead_letter), "dead_letter", places)
    yield from _object_stores(pipeline, places)
    yield from _letters(pipeline, places)


def _told(found: Iterator[Wrong], path: str, places: Places) -> Iterator[Fault]:
    for wrong in found:
        at = f"{path}.{wrong.key}" if wrong.key else path
        yield places.fault(wrong.code, at, wrong.message, wrong.hint, at_key=wrong.at_key)


def _foreign_keys(sink: Sink, path: str, places: Places) -> Iterator[Fault]:
    """Keys of other kinds of sinks."""
    own = sink_kind(sink.format)
    for name in {key.name: None for kind in sink_kinds() for key in kind.keys}:
        if f"{path}.{name}" in places.by_path and own.key(name) is None:
            takers = [kind.name for kind in sink_kinds() if kind.key(name) is not None]
            text, hint = f"is nothing to a sink of format {sink.format}", f"it is a key of {', '.join(takers)}"
            yield places.fault(FaultCode.SINK_TAKES_NO_KEY, f"{path}.{name}", text, hint, at_key=True)


def _writes(sink: Sink, index: int, pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Two sinks in one place."""
    place = target_of(sink)
    for other, before in enumerate(pipeline.sinks[:index]):
        if place is not None and target_of(before) == place:
            key = next((key for key in ("path", "table", *sink.more) if sink.value(key)), "name")
            text = f"is where the sink {pipeline.sinks[other].name} writes"
            yield places.fault(FaultCode.CONTRADICTION, f"sinks[{index}].{key}", text, "name another")


def _letters(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Dead letters in a sink's place."""
    letters = pipeline.dead_letter
    place = target_of(letters.as_sink()) if letters is not None else None
    for sink in pipeline.sinks:
        if letters is not None and place is not None and target_of(sink) == place:
            text = f"is where the sink {sink.name} writes"
            key = "path" if letters.path else "table"
            yield places.fault(FaultCode.CONTRADICTION, f"dead_letter.{key}", text, "name another")


def _object_stores(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Dead letters beside a state that lies where no directory can be renamed in one step."""
    decode, letters = pipeline.decode, pipeline.dead_letter or DeadLetter()
    kind = sink_kind(letters.format).dead_letters
    if decode is None or decode.on_error is not OnError.DEAD_LETTER or letters.path is not None:
        return
    store = object_store(pipeline.state)
    if store is not None and kind is not None and kind.beside_state:
        text = f"dead letters would lie in {store}: {WHY}"
        hint = "give dead_letter format: delta, or a path that is in none"
        yield places.fault(FaultCode.GUARANTEE_IMPOSSIBLE, "state", text, hint)


def _promise(sink: Sink, path: str, places: Places) -> Iterator[Fault]:
    if sink.guarantee is not Guarantee.EXACTLY_ONCE:
        return
    from pytubemq.pipelines.analysis.guarantees import promise_of  # it needs this package's values itself

    promise = promise_of(sink)
    if promise.guarantee is not Guarantee.EXACTLY_ONCE:
        hint = promise.needs or "ask for at_least_once"
        text = f"exactly_once cannot be had: {promise.why}"
        yield places.fault(FaultCode.GUARANTEE_IMPOSSIBLE, f"{path}.guarantee", text, hint)
