"""The command line as a process, with a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

import pytest

from pytubemq.server.cluster import ThreadedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

COMMAND = [sys.executable, "-m", "pytubemq"]


@dataclass
class CommandLine:
    """Runs `pytubemq` commands that share a profile file and a working directory."""

    home: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTUBEMQ_")}
        return {**kept, "XDG_CONFIG_HOME": str(self.home / "config"), "NO_COLOR": "1"}

    def __call__(
        self, *arguments: str, stdin: bytes | None = None, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one to its end."""
        return subprocess.run(
            [*COMMAND, *arguments],
            input=b"" if stdin is None else stdin,
            capture_output=True,
            cwd=self.home,
            env={**self.environ, **(environ or {})},
            timeout=60,
            check=False,
        )

    def start(self, *arguments: str, stdin: int | IO[bytes] = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start one that goes on; it is killed at the end of the test."""
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.home,
            env=self.environ,
        )
        self.running.append(process)
        return process

    def dev(self, *arguments: str) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
        """Start `pytubemq dev` on free ports and wait until it is ready; returns it and where it is."""
        ports = [
            item
            for key in ("master.listen", "broker.listen", "http.listen", "broker.http_listen")
            for item in ("--set", f"{key}=127.0.0.1:0")
        ]
        process = self.start("dev", "-o", "jsonl", *ports, *arguments)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            assert process.stderr is not None
            pytest.fail(f"dev did not start: {process.stderr.read().decode()}")
        return process, json.loads(line)

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def stop(process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> tuple[int, str]:
    """Send a signal and wait; returns the exit code and what was said."""
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said.decode()


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[CommandLine]:
    """The command line, at home in a directory of the test's own."""
    line = CommandLine(tmp_path)
    yield line
    line.end()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreadedCluster]:
    """A cluster in this process."""
    with ThreadedCluster(data_dir=tmp_path / "cluster") as running:
        yield running
