"""What is wrong with a pipeline beyond its form: names, contradictions, promises that cannot be kept, secrets.

The invariant: nothing is connected to, started or written, and neither Spark nor Arrow is imported.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.pipelines.file.loader import Loaded, in_order, load
from pytubemq.pipelines.rules import addresses, loops, names, options, parts, repeats, secret_rules, sinks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import Pipeline

RULES = (
    parts.check, addresses.check, names.check, sinks.check, loops.check, repeats.check, options.check,
    secret_rules.check,
)  # fmt: skip


def lint(path: str | Path, *, variables: Mapping[str, str] | None = None) -> list[Fault]:
    """All faults of a file, in the order of their places."""
    return list(load_checked(path, variables=variables).faults)


def load_checked(path: str | Path, *, variables: Mapping[str, str] | None = None) -> Loaded:
    """A file with all its faults: of form, and of meaning where it could be read."""
    loaded = load(path, variables=variables)
    if loaded.pipeline is None:
        return loaded
    found = [fault for rule in RULES for fault in rule(loaded.pipeline, loaded.places)]
    return replace(loaded, faults=in_order([*loaded.faults, *found]))


def read(path: str | Path, *, variables: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline that a file holds, if `lint` finds no error in it.

    Raises:
        PipelineFileError: it does; they are in it.
    """
    return load_checked(path, variables=variables).require()
