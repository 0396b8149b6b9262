"""The command `pytubemq`.

The invariant: asking for help loads click and these few lines, never a server, a client or Spark; data goes to
standard output and everything else to standard error; the exit code is one of `errors.ExitCode`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytubemq.cli.main import run


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    raise SystemExit(run(arguments))
