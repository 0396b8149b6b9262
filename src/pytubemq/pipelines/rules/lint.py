"""The rules asked of a file alone: what `pytubemq pipeline lint` says.

The invariant: nothing is connected to, started or written, and neither Spark nor Arrow is imported.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.pipelines.file.reading.loader import Loaded, in_order, load
from pytubemq.pipelines.file.reading.paths import beside
from pytubemq.pipelines.rules.registry import faults_of
from pytubemq.pipelines.rules.rule import Context

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import Pipeline


def lint(path: str | Path, *, variables: Mapping[str, str] | None = None) -> list[Fault]:
    """Return all faults of a file, in the order of their places."""
    return list(load_checked(path, variables=variables).faults)


def load_checked(path: str | Path, *, variables: Mapping[str, str] | None = None) -> Loaded:
    """Load a file with all its faults: of form, and of meaning where it could be read."""
    loaded = load(path, variables=variables)
    if loaded.pipeline is None:
        return loaded
    found = faults_of(Context(loaded.pipeline, loaded.places))
    return replace(loaded, faults=in_order([*loaded.faults, *found]))


def read(path: str | Path, *, variables: Mapping[str, str] | None = None) -> Pipeline:
    """Return the pipeline that a file holds, its paths absolute, if `lint` finds no error in it.

    Raises:
        PipelineFileError: it does; they are in it.
    """
    return beside(load_checked(path, variables=variables).require(), path)
