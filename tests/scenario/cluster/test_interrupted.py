"""Ctrl-C ends a command soon and without a traceback, whatever it does and whoever has stopped reading its output."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ExitCode
from tests.support.waiting import until_seen

from .conftest import COMMAND, CommandLine

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.server.cluster import ThreadedCluster

pytestmark = pytest.mark.scenario


def is_full(descriptor: int) -> bool:
    """True if a write into the pipe would wait."""
    return not select.select([], [descriptor], [], 0)[1]


@pytest.mark.parametrize("options", [(), ("-o", "json"), ("--tail", "--from", "earliest"), ("--group", "g")])
def test_consume_ends_although_nobody_reads_its_output_and_its_errors(
    tube: CommandLine, cluster: ThreadedCluster, options: tuple[str, ...]
) -> None:
    cluster.create_topic("t", partitions=1)
    at = ("--master", cluster.master)
    assert tube("produce", "t", *at, stdin=b"x" * 900 + b"\n" + (b"y" * 900 + b"\n") * 200).returncode == ExitCode.DONE
    reading, writing = os.pipe()  # as in `2>&1 | less`
    try:
        process = subprocess.Popen(
            [*COMMAND, "consume", "t", *options, *at],
            stdin=subprocess.DEVNULL, stdout=writing, stderr=writing, cwd=tube.home, env=tube.environ,
        )  # fmt: skip
        tube.running.append(process)
        until_seen(lambda: is_full(writing))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == ExitCode.INTERRUPTED
    finally:
        os.close(writing)
        os.close(reading)


STARTS = """
import os, signal, sys

module = sys.argv.pop(1)

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from pytubemq.cli import main
main()
"""


@pytest.mark.parametrize("module", ["click", "pytubemq.cli.failures", "pytubemq.cli.commands.consume.consume"])
def test_ctrl_c_while_the_program_loads_shows_no_traceback(tmp_path: Path, module: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", STARTS, module, "consume", "demo", "--master", "127.0.0.1:1"],
        capture_output=True, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert found.returncode == ExitCode.INTERRUPTED
    assert b"Traceback" not in found.stderr
