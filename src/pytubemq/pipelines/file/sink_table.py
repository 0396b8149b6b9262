"""The kinds of sinks: a line for each, with the package that holds it.

The invariant: a package has the module `kind`, with the value `KIND`, which is loaded without Spark, and the module
`writer`, with `make_writer`, which is loaded when a sink is made. Nothing else in the package names a kind.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytubemq.pipelines.file.sink_kind import SinkKind

SINKS: Final[dict[str, str]] = {
    "parquet": "pytubemq.pipelines.sinks.parquet",
    "delta": "pytubemq.pipelines.sinks.delta",
    "iceberg": "pytubemq.pipelines.sinks.iceberg",
    "jdbc": "pytubemq.pipelines.sinks.jdbc",
    "kafka": "pytubemq.pipelines.sinks.kafka",
    "tubemq": "pytubemq.pipelines.sinks.tubemq",
    "console": "pytubemq.pipelines.sinks.console",
}
"""Packages by the word of `format`, in the order of the docs."""


def sink_kind(name: str) -> SinkKind:
    """Return the kind of a format."""
    kind: SinkKind = import_module(f"{SINKS[name]}.kind").KIND
    return kind


def sink_kinds() -> tuple[SinkKind, ...]:
    """Return all of them, in the order of the docs."""
    return tuple(sink_kind(name) for name in SINKS)
