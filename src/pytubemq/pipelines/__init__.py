"""Pipelines: source, decode, steps, sinks, as one file says it.

`file` reads it, `rules` check it, `run` carries it out, `operate` looks after it. The names below are what the command
line needs of a file; they are loaded when they are first used, and importing this package loads nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytubemq.pipelines.file.faults import Fault, FaultCode, PipelineFileError, Severity
    from pytubemq.pipelines.file.reading.loader import Loaded, load
    from pytubemq.pipelines.rules.lint import lint, load_checked, read

__all__ = ["Fault", "FaultCode", "Loaded", "PipelineFileError", "Severity", "lint", "load", "load_checked", "read"]

_HOMES = {
    "Fault": "file.faults",
    "FaultCode": "file.faults",
    "Loaded": "file.reading.loader",
    "PipelineFileError": "file.faults",
    "Severity": "file.faults",
    "lint": "rules.lint",
    "load": "file.reading.loader",
    "load_checked": "rules.lint",
    "read": "rules.lint",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
