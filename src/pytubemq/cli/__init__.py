"""The command `pytubemq`.

The invariant: `--help` loads click and these few lines, never a server, a client or Spark; data goes to
standard output and everything else to standard error; the exit code is one of `errors.ExitCode`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""`ExitCode.INTERRUPTED`, before anything is loaded."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    try:
        # Here, so that Ctrl-C while it loads ends as quietly as later on.
        from pytubemq.cli.main import run

        code = run(arguments)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    raise SystemExit(code)
