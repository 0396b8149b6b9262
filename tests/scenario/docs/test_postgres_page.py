"""The how-to about the records in PostgreSQL, command by command: moved, led by one, taken over by the other."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ExitCode
from tests.support.ports import free_port

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

pytestmark = pytest.mark.scenario

PAGE = (Path(__file__).parents[3] / "docs/how-to/keep-metadata-in-postgresql.md").read_text("utf-8")
PASSWORD = "a-long-password"
WAIT_S = 250.0


def blocks(kind: str) -> list[str]:
    """The page's blocks of a language, without their indentation."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)
    return [
        "\n".join(line.removeprefix(indent) for line in text.splitlines()) for indent, of, text in found if of == kind
    ]


class Master:
    """A Master as a process, in a directory of its own."""

    def __init__(self, home: Path, text: str = "") -> None:
        self.home = home
        home.mkdir(exist_ok=True)
        self.address, self.page = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self._process: subprocess.Popen[str] | None = None
        self.configure(text)

    def configure(self, text: str) -> None:
        """Write the settings file; `text` has the page's."""
        head, _, section = f'data = "{self.home}/tubemq-data"\n[http]\nlisten = "{self.page}"\n', "", text.strip()
        section = section.removeprefix("[master]")
        (self.home / "master.toml").write_text(f'{head}[master]\nlisten = "{self.address}"\n{section}\n')

    @property
    def log(self) -> str:
        return (self.home / "log").read_text("utf-8")

    def start(self) -> None:
        """Start it; it may have to stand by."""
        command = [sys.executable, "-m", "pytubemq", "server", "run", "master", "-c", "master.toml"]
        # So long that a machine that stands still ends no leadership; one that is given back ends at once.
        environ = {**os.environ, "PYTUBEMQ_MASTER__LEASE_S": "60"}
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, cwd=self.home, text=True, env=environ
            )

    def until_it_serves(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log
        assert json.loads(line)["ready"]

    def until_it_says(self, text: str) -> None:
        assert self._process is not None
        end_s = time.monotonic() + WAIT_S
        while text not in self.log:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < end_s, self.log
            time.sleep(0.05)

    def end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.communicate(timeout=WAIT_S)

    def retention(self) -> str:
        """What it has on record for topics without a retention of their own."""
        found = run(self.home, "pytubemq", "cluster", "show", "-o", "json", "--http", f"http://{self.page}")
        return str(json.loads(found.stdout)["retention"])


def run(home: Path, *command: str, code: int = ExitCode.DONE) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", *command] if command[0] == "pytubemq" else list(command)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTUBEMQ_")}
    environ |= {"XDG_CONFIG_HOME": str(home)}
    found = subprocess.run(words, cwd=home, capture_output=True, text=True, timeout=WAIT_S, env=environ, check=False)
    assert found.returncode == code, found.stderr
    return found


def test_the_page_moves_a_masters_records_and_lets_another_one_stand_by(postgres: Postgres, tmp_path: Path) -> None:
    made, asked = blocks("sql")
    for statement in made.strip().split(";\n"):
        postgres.run(statement)
    there = f"{postgres.address}/pytubemq"
    commands = "\n".join(blocks("")).replace("db.example:5432/pytubemq", there)
    (settings,) = (text.replace("db.example:5432/pytubemq", there) for text in blocks("toml"))
    with ExitStack() as stack:
        first = Master(tmp_path / "first")
        stack.callback(lambda: first.end(signal.SIGKILL))
        first.start()
        first.until_it_serves()
        alter = ("pytubemq", "cluster", "alter", "--retention", "200h", "--http", f"http://{first.page}")
        run(first.home, *alter)
        before = first.retention()
        assert "200h" in before
        first.end(signal.SIGTERM)
        secret, migrations = commands.split("pytubemq master migrate", 1)
        run(first.home, "sh", "-euc", secret)
        dry, copied = (f"pytubemq master migrate{line}" for line in migrations.split("pytubemq master migrate"))
        assert "nothing was changed" in run(first.home, *dry.split()).stderr
        assert "found them equal" in run(first.home, *copied.split()).stderr
        first.configure(settings)
        first.start()
        first.until_it_serves()
        assert first.retention() == before
        second = Master(tmp_path / "second", settings)
        stack.callback(lambda: second.end(signal.SIGKILL))
        run(second.home, "sh", "-euc", secret)
        second.start()
        second.until_it_says(f"{first.address} leads with epoch")
        assert postgres.run(asked, database="pytubemq")[0][0] == first.address
        first.end(signal.SIGTERM)
        second.until_it_serves()
        assert second.retention() == before
        assert postgres.run(asked, database="pytubemq")[0][0] == second.address
        assert PASSWORD not in first.log + second.log
