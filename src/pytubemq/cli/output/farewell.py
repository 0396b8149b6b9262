"""The last words of an interrupted command.

The invariant: Ctrl-C ends the program soon, also where nobody reads its output any more (`2>&1 | less`, whose pipe is
full): what cannot be written within WITHIN_S is given up, together with what is still buffered.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Final

import click

from pytubemq.errors import ExitCode

WITHIN_S: Final = 0.5
"""The time for the last words, and for what standard output has buffered."""


def say_farewell(text: str) -> None:
    """Print a message on standard error, nothing if it is blank; end the process if that cannot be done in time."""
    written = threading.Event()

    def write() -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader has gone, or the stream is closed
            if text:
                click.echo(text, err=True)
            sys.stderr.flush()
            sys.stdout.flush()
            written.set()

    try:
        thread = threading.Thread(target=write, name="pytubemq-farewell", daemon=True)
        thread.start()
        thread.join(WITHIN_S)
    except KeyboardInterrupt:  # once more: then without last words
        leave()
    if not written.is_set():
        leave()


def leave() -> None:
    """End the process as interrupted, at once: an ordinary end would wait for the buffers of its output."""
    os._exit(ExitCode.INTERRUPTED)
