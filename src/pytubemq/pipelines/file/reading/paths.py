"""Relative paths of a file made absolute: they are relative to the file, wherever a command was typed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pytubemq.pipelines.file.model import DeadLetter, Sink, Source

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline, SparkSettings

_Spec = TypeVar("_Spec", Source, Sink, DeadLetter)

_WAREHOUSE: Final = re.compile(r"spark\.sql\.catalog\.([^.]+)\.warehouse", re.IGNORECASE)
"""The setting of the directory in which a catalog keeps its tables."""


def beside(pipeline: Pipeline, file: str | Path) -> Pipeline:
    """Return the pipeline with absolute paths: of its source, tables, sinks, dead letters, secrets, state and catalogs.

    A URI stays as it is, and so does what begins with a reference.
    """
    directory = Path(file).absolute().parent
    letters = pipeline.dead_letter
    return replace(
        pipeline,
        source=_placed(pipeline.source, directory),
        tables=tuple(replace(table, path=_absolute(table.path, directory)) for table in pipeline.tables),
        sinks=tuple(_placed(sink, directory) for sink in pipeline.sinks),
        dead_letter=None if letters is None else _placed(letters, directory),
        state=_absolute(pipeline.state_or_default, directory),
        spark=_with_warehouses(pipeline.spark, directory),
    )


def _placed(spec: _Spec, directory: Path) -> _Spec:
    """Make the paths of a source, a sink or the dead letters absolute; `~` is the home of the user."""
    file = spec.secret_file
    secret_file = str(Path(file).expanduser()) if file and file.startswith("~") else _absolute(file, directory)
    return replace(spec, path=_absolute(spec.path, directory), secret_file=secret_file)


def _with_warehouses(settings: SparkSettings, directory: Path) -> SparkSettings:
    """Make the warehouses of catalogs of type hadoop absolute; for other types it may be a name."""
    made = dict(settings.conf)
    for name, value in settings.conf.items():
        catalog = _WAREHOUSE.fullmatch(name)
        if catalog is not None and made.get(f"spark.sql.catalog.{catalog[1]}.type", "").strip().lower() == "hadoop":
            made[name] = _absolute(value, directory) or value
    return settings if made == settings.conf else replace(settings, conf=made)


def _absolute(path: str | None, directory: Path) -> str | None:
    if path is None or "://" in path or path.startswith(("${", "file:", "dbfs:")):
        return path
    return str(directory / path)
