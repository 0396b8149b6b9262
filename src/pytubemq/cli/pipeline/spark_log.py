"""Where Spark's own words go while a pipeline runs: into a file of the state directory, not onto the screen.

The invariant: whatever is written to this process's standard error by Spark, its JVM and its workers lands in the log,
and what we say does not; afterwards standard error is what it was.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "spark.log"
MOST_BYTES: Final = 16 * 1024 * 1024
"""A log that is longer at the start of a run is put aside as `spark.log.1`, in place of the one before."""
_ERROR: Final = 2


def log_place(state: str, name: str) -> Path:
    """The log of a pipeline: in its state directory, or among temporary files where that is not on this machine."""
    if "://" in state:
        return Path(tempfile.gettempdir()) / f"pytubemq-{name}-{NAME}"
    return Path(state) / NAME


@contextlib.contextmanager
def spark_log(place: Path) -> Iterator[TextIO]:
    """Send standard error to the log; yields what it was, for us to talk to.

    Raises:
        ConfigError: the log cannot be written.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists() and place.stat().st_size > MOST_BYTES:
            place.replace(place.with_name(place.name + ".1"))
        log = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise ConfigError(
            f"Spark's log {place} cannot be written: {error.strerror}", hint="give the pipeline another `state`"
        ) from error
    sys.stderr.flush()
    screen = os.dup(_ERROR)
    os.dup2(log, _ERROR)
    os.close(log)
    talk = os.fdopen(os.dup(screen), "w", encoding="utf-8", errors="replace", buffering=1)
    try:
        yield talk
    finally:
        talk.close()
        sys.stderr.flush()
        os.dup2(screen, _ERROR)
        os.close(screen)
