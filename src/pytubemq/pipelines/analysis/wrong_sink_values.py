"""Faults of a sink's keys and options: asked by `lint` and when the sink is made.

The invariant: what the runner gives to what a sink writes with is set by nobody else, for its promise rests on that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import DeadLetter, Sink
from pytubemq.pipelines.file.sink_kind import Wrong
from pytubemq.pipelines.file.sink_table import sink_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytubemq.pipelines.file.sink_kind import SinkKind


_Spec = TypeVar("_Spec", Sink, DeadLetter)
_TEXTS: Final = ("path", "table", "url", "topic", "master", "user", "secret_file")
"""The keys of a sink whose values may hold references, beside its options."""


def with_texts(spec: _Spec, text_of: Callable[[str], str]) -> _Spec:
    """Return a sink, or the dead letters, with each text as `text_of` gives it."""
    texts: dict[str, Any] = {name: text_of(text) for name in _TEXTS if (text := getattr(spec, name))}
    return replace(spec, options={name: text_of(text) for name, text in spec.options.items()}, **texts)


def wrong_values(sink: Sink) -> Iterator[Wrong]:
    """Yield what a sink's kind does not take, or needs; a text that holds a reference is passed over."""
    kind = sink_kind(sink.format)
    yield from _of_kind(sink, kind, kind.needs)


def wrong_dead_letters(letters: DeadLetter) -> Iterator[Wrong]:
    """Yield what the kind of sink that dead letters go to does not take of them, or needs."""
    kind = sink_kind(letters.format)
    needs = kind.needs if kind.dead_letters is None else kind.dead_letters.needs
    yield from _of_kind(letters.as_sink(), kind, needs)


def _of_kind(sink: Sink, kind: SinkKind, needs: tuple[tuple[str, ...], ...]) -> Iterator[Wrong]:
    wrong = list(_options(sink, kind))
    yield from wrong
    for group in needs:
        if not any(sink.value(key) for key in group):
            text = f"of format {kind.name} needs the key {' or '.join(group)}"
            yield Wrong("", text, code=FaultCode.SINK_LACKS_KEY)
    wrong_keys = {one.key for one in wrong}
    sound = {name: value for name, value in sink.options.items() if f"options.{name}" not in wrong_keys}
    yield from kind.wrong(replace(sink, options=sound))


def _options(sink: Sink, kind: SinkKind) -> Iterator[Wrong]:
    """Yield options that are not the file's to set, or stand there twice."""
    seen: dict[str, str] = {}
    for name in sink.options:
        lower = name.lower()
        if lower in seen:
            yield _of_option(name, f"is {seen[lower]} again: case is ignored", "keep one of the two")
        elif lower in kind.set_by_runner:
            yield _of_option(name, "is set by the runner", "delete it")
        elif own := kind.key_of_option.get(lower):
            yield _of_option(name, "has a key of its own", f"write it as the key {own}")
        seen.setdefault(lower, name)


def _of_option(name: str, message: str, hint: str) -> Wrong:
    return Wrong(f"options.{name}", message, hint, at_key=True, code=FaultCode.SINK_OPTION)
