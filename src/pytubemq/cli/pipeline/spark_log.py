"""Spark's own output while a pipeline runs: into a file of the state directory, not onto the screen.

The invariant: everything that Spark, its JVM and its workers write to this process's standard error goes to the log,
and our own messages do not; afterwards standard error is as before. Two files of about `MOST_BYTES` are kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "spark.log"
MOST_BYTES: Final = 16 * 1024 * 1024
"""The size at which a log is renamed to `spark.log.1`, in place of the one before, at the start and during a run."""
LOOK_S: Final = 5.0
_ERROR: Final = 2


def log_place(state: str, name: str) -> Path:
    """Return the path of a pipeline's log: in its state directory, or a temporary one if that is elsewhere."""
    if "://" in state:
        return Path(tempfile.gettempdir()) / f"pytubemq-{name}-{NAME}"
    return Path(state) / NAME


def length(place: Path) -> int:
    """Return the length of a log in bytes; 0 if there is none."""
    try:
        return place.stat().st_size
    except OSError:
        return 0


@contextlib.contextmanager
def spark_log(place: Path, *, look_s: float = LOOK_S) -> Iterator[TextIO]:
    """Send standard error to the log; yield the original stream, for our own messages.

    Args:
        place: the log.
        look_s: the time between two checks of its length, in seconds.

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
    over = threading.Event()
    keeper = threading.Thread(target=_keep_short, args=(place, over, look_s), name="spark.log", daemon=True)
    keeper.start()
    try:
        yield talk
    finally:
        over.set()
        keeper.join()
        talk.close()
        sys.stderr.flush()
        os.dup2(screen, _ERROR)
        os.close(screen)


def _keep_short(place: Path, over: threading.Event, look_s: float) -> None:
    while not over.wait(look_s):
        # a full disk or a file that somebody took away is no reason to end a run; it is looked at again
        with contextlib.suppress(OSError):
            if place.stat().st_size > MOST_BYTES:
                _put_aside(place)


def _put_aside(place: Path) -> None:
    """Copy the log and cut it; it stays the file that others have open, and since they append, they continue at 0.

    What is written between the copy's end and the cut is lost.
    """
    beside = place.with_name(place.name + ".1.tmp")
    with open(place, "r+b") as log:
        with open(beside, "wb") as aside:
            shutil.copyfileobj(log, aside)
        log.truncate(0)
    beside.replace(place.with_name(place.name + ".1"))
