"""The writers of sinks and of dead letters, by their formats."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.default_place import with_place
from pytubemq.pipelines.analysis.wrong_sink_values import with_texts, wrong_dead_letters, wrong_values
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.file.sink_table import SINKS, sink_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.model import DeadLetter, Sink
    from pytubemq.pipelines.file.sink_kind import Wrong
    from pytubemq.pipelines.sinks.sink_writer import SinkWriter


def make_sink(spec: Sink) -> SinkWriter:
    """Make the writer of a sink.

    Raises:
        ConfigError: the sink lacks something, or has what its format does not take.
    """
    _refuse(spec.name, wrong_values(with_texts(spec, resolve)))
    return sink_writer(spec)


def make_dead_letters(dead_letter: DeadLetter, *, beside: str) -> SinkWriter:
    """Make the writer of the dead letters.

    Args:
        dead_letter: what the file says of them.
        beside: the directory, beside the state, of those that have no place of their own.

    Raises:
        ConfigError: something lacks, or is nothing that the format takes.
    """
    kind = sink_kind(dead_letter.format).dead_letters
    dead_letter = with_place(dead_letter, beside)
    spec = dead_letter.as_sink()
    _refuse(spec.name, wrong_dead_letters(with_texts(dead_letter, resolve)))
    return sink_writer(spec, "dead_letters" if kind is not None and kind.own_writer else "writer")


def _refuse(name: str, wrong: Iterator[Wrong]) -> None:
    first = next(wrong, None)
    if first is not None:
        raise ConfigError(f"sink {name}: {f'{first.key}: ' if first.key else ''}{first.message}", hint=first.hint)


def sink_writer(spec: Sink, module: str = "writer") -> SinkWriter:
    """Make the writer of a sink whose values are checked; so one sink can use another without importing it."""
    made: SinkWriter = import_module(f"{SINKS[spec.format]}.{module}").make_writer(spec)
    return made
