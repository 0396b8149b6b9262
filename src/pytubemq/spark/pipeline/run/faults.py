"""Spark's exceptions in our terms: what was wrong with which part of the pipeline, in few lines.

The invariant: an error that a user can mend names the part that he wrote (source, step, sink), not Spark's classes.
"""

from __future__ import annotations

import re
from typing import Final

from pytubemq.errors import ConfigError, TubeError

_OURS: Final = re.compile(r"pytubemq\.errors\.(\w+): (.*)")
_LONGEST: Final = 600


class PipelineError(TubeError):
    """A run failed: a sink, a step or the source refused while batches were under way."""


class TooManyRejectedError(PipelineError):
    """More records were rejected than the pipeline allows."""


def of_spark(error: BaseException, what: str, *, hint: str | None = None) -> ConfigError:
    """A fault found before anything ran."""
    return ConfigError(f"{what}: {said(error)}", hint=hint)


def failed(error: BaseException, what: str) -> TubeError:
    """A fault of a running batch. Errors of ours are given as they are."""
    if isinstance(error, TubeError):
        return error
    return PipelineError(f"{what}: {said(error)}", hint="mend the cause and run again: the run goes on with this batch")


def said(error: BaseException) -> str:
    """What an exception of Spark says, without stack traces; an error of ours inside of it comes first."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1][1]).strip()
    lines = []
    for line in text.strip().splitlines():
        if line.startswith(("\tat ", "JVM stacktrace", "Driver stacktrace", "Traceback")):
            break
        if line.strip():
            lines.append(line.strip())
    short = " ".join(lines[:6])
    return short if len(short) <= _LONGEST else short[: _LONGEST - 3] + "..."
