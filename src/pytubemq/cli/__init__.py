"""The command `pytubemq`.

The invariant: `--help` loads click and these few lines, never a server, a client or Spark; data goes to
standard output and everything else to standard error; the exit code is one of `errors.ExitCode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    raise SystemExit(run(arguments))
