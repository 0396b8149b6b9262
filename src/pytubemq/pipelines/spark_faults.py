"""Spark's exceptions in our terms: what was wrong with which part of the pipeline, in few lines.

The invariant: an error that a user can fix names the part that he wrote (source, step, sink), not Spark's classes.
"""

from __future__ import annotations

import re
from typing import Final

from pytubemq.errors import ConfigError, TubeError
from pytubemq.pipelines.file.secrets import without_secrets

_OURS: Final = re.compile(r"\bpytubemq\.[\w.]*?(\w+Error): (.*)")
_TRACEBACK: Final = "Traceback (most recent call last):"
_AFTER: Final = ("\tat ", "JVM stacktrace", "Driver stacktrace", "=== ", "During handling", "The above exception")
"""What lines begin with that follow what was wrong."""
_CALLED: Final = re.compile(r"^An error occurred while calling [\w.]+\.\s*: (?:[\w$]+\.)+[\w$]+: ")
"""How py4j begins what Java raised."""
_TAIL: Final = re.compile(r"\s*(?:;\s*line \d+ pos \d+.*|\(line \d+, pos \d+\).*|== SQL.*|SQLSTATE: \w+.*)$", re.DOTALL)
"""What follows in a fault of a query: a place in its text, and the query or its plan."""
_LONGEST: Final = 600
_MOST_LINES: Final = 6


class PipelineError(TubeError):
    """A run failed: a sink, a step or the source refused while batches were under way."""


class StepError(ConfigError):
    """A step that Spark does not take; `step` is its name."""

    def __init__(self, message: str, *, step: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.step = step


class TooManyRejectedError(PipelineError):
    """More records were rejected than the pipeline allows."""


def of_spark(error: BaseException, what: str, *, hint: str | None = None) -> ConfigError:
    """Create the error of a fault found before anything ran."""
    return ConfigError(f"{what}: {refused(error)}", hint=hint)


def refused(error: BaseException) -> str:
    """Return Spark's reason for refusing a query, without the query and its plan."""
    return _TAIL.sub("", format_error(error)).strip()


def failed(error: BaseException, what: str) -> TubeError:
    """Create the error of a running batch. Errors of ours are returned as they are."""
    if isinstance(error, TubeError):
        return error
    return PipelineError(
        f"{what}: {format_error(error)}", hint="fix the cause and run again: the run continues with this batch"
    )


def format_error(error: BaseException) -> str:
    """Return the text of Spark's exception without stack traces; an error of ours inside of it comes first, then what a
    traceback of Python ends with. What references became is not in it: Spark shows the query and the plan as they ran.
    """
    text = _CALLED.sub("", without_secrets(str(error)))
    ours = _OURS.findall(text)
    if ours:
        return _short([str(ours[-1][1])])
    cause = _cause(text)
    if cause:
        return _short(cause)
    return _short(_until(text.strip().splitlines(), (*_AFTER, _TRACEBACK)))


def _cause(text: str) -> list[str]:
    """Return the lines in which the last traceback says what was raised; none if there is no traceback."""
    _, found, last = text.rpartition(_TRACEBACK)
    if not found:
        return []
    lines = last.splitlines()
    raised = next((at for at, line in enumerate(lines) if line and not line[0].isspace()), len(lines))
    return _until(lines[raised:], _AFTER)


def _until(lines: list[str], ends: tuple[str, ...]) -> list[str]:
    wanted = []
    for line in lines:
        if line.startswith(ends):
            break
        wanted.append(line)
    return wanted


def _short(lines: list[str]) -> str:
    text = " ".join([line.strip() for line in lines if line.strip()][:_MOST_LINES])
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
