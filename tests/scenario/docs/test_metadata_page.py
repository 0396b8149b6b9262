"""The how-to about metadata in git, command by command, on a running cluster."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytubemq.errors import ExitCode
from pytubemq.server.cluster import ThreadedCluster

pytestmark = pytest.mark.scenario

PAGE = (Path(__file__).parents[3] / "docs/how-to/metadata-in-git.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text.strip() for of, text in BLOCKS if of == kind]


class Shell:
    """Runs the page's commands in a directory, against one cluster."""

    def __init__(self, home: Path, http: str) -> None:
        self.home, self.http = home, http

    def run(self, command: str, *, code: int = ExitCode.DONE) -> tuple[str, str]:
        """Run a command, which must end with a code; return standard output and standard error."""
        program, *arguments = shlex.split(command)
        assert program == "pytubemq"
        done = subprocess.run(
            [sys.executable, "-m", "pytubemq", *arguments, "--http", self.http, "--timeout", "60"],
            cwd=self.home, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, (command, done.stdout, done.stderr)
        return done.stdout.strip(), done.stderr.strip()


def test_the_page_command_by_command(tmp_path: Path) -> None:
    export, diff, diff_changes, apply, prune, restore = blocks("sh")
    wrote, differences = blocks("")
    entry, changes = blocks("toml")
    (tmp_path / "changes.toml").write_text(changes)
    with ThreadedCluster() as cluster:
        shell = Shell(tmp_path, cluster.http)
        shell.run("pytubemq topic create orders --partitions 4 --retention 72h")
        assert shell.run(export)[1] == wrote
        assert entry in (tmp_path / "cluster.toml").read_text()
        shell.run(diff)
        assert shell.run(diff_changes, code=ExitCode.DIFFERENT)[0] == differences
        shell.run("pytubemq cluster apply changes.toml", code=ExitCode.USAGE)
        shell.run(diff_changes, code=ExitCode.DIFFERENT)
        assert "applied: 2 created, 1 changed" in shell.run(apply)[1]
        shell.run(diff_changes)
        shell.run("pytubemq topic show returns")
        assert "removed" in shell.run(prune)[1]
        shell.run("pytubemq topic show returns", code=ExitCode.NOT_FOUND)
        before = (tmp_path / "cluster.toml").read_bytes()
        shell.run(export)
        assert (tmp_path / "cluster.toml").read_bytes() == before
        assert shell.run(restore)[1] == "no differences"
    with ThreadedCluster() as cluster:
        shell = Shell(tmp_path, cluster.http)
        (tmp_path / "topics.toml").write_text(
            re.sub(r"^\[brokers.*?(?=^\[topics)", "", before.decode(), flags=re.M | re.S)
        )
        assert "applied: 1 created" in shell.run("pytubemq cluster import topics.toml --yes")[1]
        shell.run("pytubemq cluster diff topics.toml")
        (tmp_path / "wrong.toml").write_text('[topics.orders]\nretension = "1h"\n')
        _, error = shell.run("pytubemq cluster apply wrong.toml --yes", code=ExitCode.REFUSED)
        assert "topics.orders.retension: unknown key" in error
        assert "did you mean retention?" in error
