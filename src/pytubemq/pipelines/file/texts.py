"""Texts of a pipeline that may hold a secret or a reference, by their paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.pipelines.file.secrets import hide_defaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytubemq.pipelines.file.model import Pipeline


def hide_secrets(pipeline: Pipeline) -> None:
    """Let what others say be shown without the secrets that stand in references' defaults."""
    for _, name, value in texts_of(pipeline):
        hide_defaults(name, value)


def texts_of(pipeline: Pipeline) -> Iterator[tuple[str, str, str]]:
    """Yield path, name and text of every value that may hold a secret or a reference."""
    for part in ("source", "dead_letter"):
        section = getattr(pipeline, part)
        if section is not None:
            yield from _texts(part, section)
    if pipeline.decode is not None:
        yield from _options("decode.options", pipeline.decode.options)
    for kind in ("tables", "sinks"):
        for index, section in enumerate(getattr(pipeline, kind)):
            yield from _texts(f"{kind}[{index}]", section)
    yield from _options("spark.conf", pipeline.spark.conf)
    if pipeline.state is not None:
        yield "state", "state", pipeline.state


def _texts(path: str, section: Any) -> Iterator[tuple[str, str, str]]:
    for name in ("master", "user", "secret_file", "path", "url", "table", "topic"):
        value = getattr(section, name, None)
        if isinstance(value, str):
            yield f"{path}.{name}", name, value
    for name, value in getattr(section, "more", {}).items():
        yield f"{path}.{name}", name, str(value)
    yield from _options(f"{path}.options", section.options)


def _options(path: str, options: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name, value in options.items():
        yield f"{path}.{name}", name, value
