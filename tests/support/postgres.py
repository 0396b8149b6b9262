"""A PostgreSQL server of the tests' own: made anew, on a port of its own, ended with the block."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from tests.support.ports import free_port
from tests.support.proc import DIE_WITH_US
from tests.support.waiting import until_seen

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

ACCOUNT = "postgres"
"""The account that it runs as when we are root, which it refuses."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


def programs() -> Path:
    """The directory of the newest server's programs, which Debian puts beside the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found and (initdb := shutil.which("initdb")):
        found = [Path(initdb).resolve()]
    assert found, "there is no PostgreSQL server here: run  scripts/setup --postgres"
    return found[-1].parent


class Postgres:
    """A server on loopback; `home` gets its log."""

    user = "pipeline"
    password = "of no account: it listens on loopback, for a test"

    def __init__(self, home: Path) -> None:
        self._log = home / "postgres.log"
        self._port = free_port()
        self._data = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = programs()
        self._databases = count(1)

    @property
    def url(self) -> str:
        """As JDBC takes it."""
        return f"jdbc:postgresql://{self.address}/postgres"

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._port}"

    def new_database(self, options: str = "") -> str:
        """Make an empty database; return its name."""
        name = f"of_test_{next(self._databases)}"
        self.run(f"CREATE DATABASE {name} {options}")
        return name

    def database_url(self, database: str, *, address: str | None = None, user: str | None = None) -> str:
        """A database as libpq takes it, without the password; the address may be another way to the server."""
        return f"postgresql://{user or self.user}@{address or self.address}/{database}?connect_timeout=60"

    def run(self, statement: str, *, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement as the server's superuser; return its rows."""
        with psycopg.connect(self.database_url(database), password=self.password, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def _start(self) -> None:
        settings = {"port": self._port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self._data / "data"), *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*DIE_WITH_US, *self._as_account(command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._data,
            )
        until_seen(self._is_ready, timeout_s=START_TIMEOUT_S, every_s=0.05, why=self._log.read_text)

    def __enter__(self) -> Postgres:
        # a directory that the other account reaches, unlike those of pytest
        self._data = Path(tempfile.mkdtemp(prefix="pytubemq-postgres-"))
        try:
            if os.getuid() == 0:
                account = pwd.getpwnam(ACCOUNT)
                os.chown(self._data, account.pw_uid, account.pw_gid)
            self._make()
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            # At once, whoever is connected: nobody needs its data any more.
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(STOP_TIMEOUT_S)
        shutil.rmtree(self._data, ignore_errors=True)

    def _make(self) -> None:
        secret = self._data / "password"
        secret.write_text(self.password + "\n")
        secret.chmod(0o644)
        auth = ["-A", "scram-sha-256", f"--pwfile={secret}"]
        made = [str(self._programs / "initdb"), "-D", str(self._data / "data"), "-U", self.user, "-N", "-E", "UTF8"]
        with self._log.open("ab") as log:
            command = self._as_account([*made, *auth])
            subprocess.run(command, check=True, stdout=log, stderr=log, cwd=self._data, timeout=120)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self._port)]
        return subprocess.run(ready, check=False).returncode == 0

    def _as_account(self, command: Sequence[str]) -> list[str]:
        if os.getuid() != 0:
            return list(command)
        return ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups", "--", *command]
