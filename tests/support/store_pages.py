"""A Master as a process, for the how-tos about stores that its records can be in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from pytubemq.errors import ExitCode
from tests.support.ports import free_port

if TYPE_CHECKING:
    import signal
    from pathlib import Path

WAIT_S = 250.0


def blocks(page: Path, kind: str) -> list[str]:
    """A page's blocks of a language, without their indentation."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
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
        """What it has logged."""
        return (self.home / "log").read_text("utf-8")

    def keep_password(self, password: str) -> None:
        """Write the file with the password of the store."""
        file = self.home / "store.password"
        file.touch(mode=0o600)
        file.write_text(f"{password}\n", "utf-8")

    def start(self, *, lease_s: int = 60) -> None:
        """Start it; it may have to stand by."""
        command = [sys.executable, "-m", "pytubemq", "server", "run", "master", "-c", "master.toml"]
        # So long that a machine that stands still ends no leadership; one that is given back ends at once.
        environ = {**os.environ, "PYTUBEMQ_MASTER__LEASE_S": str(lease_s)}
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, cwd=self.home, text=True, env=environ
            )

    def until_it_serves(self) -> None:
        """Wait until it leads and its ports are open."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log
        assert json.loads(line)["ready"]

    def until_it_says(self, text: str) -> None:
        """Wait until this is in its log."""
        assert self._process is not None
        end_s = time.monotonic() + WAIT_S
        while text not in self.log:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < end_s, self.log
            time.sleep(0.05)

    def end(self, number: signal.Signals) -> None:
        """Send it a signal, and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.communicate(timeout=WAIT_S)

    def retention(self) -> str:
        """What it has on record for topics without a retention of their own."""
        found = run(self.home, "pytubemq", "cluster", "show", "-o", "json", "--http", f"http://{self.page}")
        return str(json.loads(found.stdout)["retention"])


def run(home: Path, *command: str, code: int = ExitCode.DONE) -> subprocess.CompletedProcess[str]:
    """Run a command of a page in a directory; see that it ends with this code."""
    words = [sys.executable, "-m", *command] if command[0] == "pytubemq" else list(command)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTUBEMQ_")}
    environ |= {"XDG_CONFIG_HOME": str(home)}
    found = subprocess.run(words, cwd=home, capture_output=True, text=True, timeout=WAIT_S, env=environ, check=False)
    assert found.returncode == code, found.stderr
    return found
