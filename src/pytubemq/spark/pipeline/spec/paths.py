"""Relative paths of a file made absolute: they are relative to the file, wherever a command was typed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytubemq.spark.pipeline.spec.model import Pipeline


def beside(pipeline: Pipeline, file: str | Path) -> Pipeline:
    """The pipeline with the paths of its source, tables, sinks and dead letters absolute. A URI stays as it is, and so
    does what begins with a reference.
    """
    directory = Path(file).absolute().parent
    letters = pipeline.dead_letter
    return replace(
        pipeline,
        source=replace(pipeline.source, path=_absolute(pipeline.source.path, directory)),
        tables=tuple(replace(table, path=_absolute(table.path, directory)) for table in pipeline.tables),
        sinks=tuple(replace(sink, path=_absolute(sink.path, directory)) for sink in pipeline.sinks),
        dead_letter=None if letters is None else replace(letters, path=_absolute(letters.path, directory)),
    )


def _absolute(path: str | None, directory: Path) -> str | None:
    if path is None or "://" in path or path.startswith(("${", "file:", "dbfs:")):
        return path
    return str(directory / path)
