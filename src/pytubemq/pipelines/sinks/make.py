"""The writers of sinks and of dead letters, by their formats."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.sink_values import wrong_dead_letters, wrong_values
from pytubemq.pipelines.file.model import DeadLetter, Guarantee, Sink
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.file.sink_table import SINKS, sink_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.sink_kind import Wrong
    from pytubemq.pipelines.sinks.port import SinkWriter

_Spec = TypeVar("_Spec", Sink, DeadLetter)


def make_sink(spec: Sink) -> SinkWriter:
    """Make the writer of a sink.

    Raises:
        ConfigError: the sink lacks something, has what its format does not take, or cannot keep the guarantee that it
            is asked for.
    """
    _refuse(spec.name, wrong_values(_resolved(spec)))
    writer = _writer(spec, "writer")
    if spec.guarantee is Guarantee.EXACTLY_ONCE and writer.guarantee is not Guarantee.EXACTLY_ONCE:
        raise ConfigError(
            f"sink {spec.name}: {spec.format} gives each row at least once, not exactly once",
            hint="leave `guarantee` out, or use another sink",
        )
    return writer


def make_dead_letters(dead_letter: DeadLetter, *, beside: str) -> SinkWriter:
    """Make the writer of the dead letters.

    Args:
        dead_letter: what the file says of them.
        beside: the directory, beside the state, of those that have no place of their own.

    Raises:
        ConfigError: something lacks, or is nothing that the format takes.
    """
    kind = sink_kind(dead_letter.format).dead_letters
    if kind is not None and kind.beside_state and dead_letter.path is None:
        dead_letter = replace(dead_letter, path=beside)
    spec = dead_letter.as_sink()
    _refuse(spec.name, wrong_dead_letters(_resolved(dead_letter)))
    return _writer(spec, "dead_letters" if kind is not None and kind.own_writer else "writer")


def _refuse(name: str, wrong: Iterator[Wrong]) -> None:
    first = next(wrong, None)
    if first is not None:
        raise ConfigError(f"sink {name}: {f'{first.key}: ' if first.key else ''}{first.message}", hint=first.hint)


def _resolved(spec: _Spec) -> _Spec:
    """Return a sink without the references of its texts."""
    texts: dict[str, Any] = {}
    for name in ("path", "table", "url", "topic", "master"):
        if text := getattr(spec, name):
            texts[name] = resolve(text)
    return replace(spec, options={name: resolve(text) for name, text in spec.options.items()}, **texts)


def _writer(spec: Sink, module: str) -> SinkWriter:
    made: SinkWriter = import_module(f"{SINKS[spec.format]}.{module}").make_writer(spec)
    return made
