"""The roles as child processes: started, killed and started again at the same addresses.

The invariants: `start` returns when the child reports that it serves, or raises the child's last error; a child ends
with its parent, however the parent ends (its standard input closes); no child is left behind by `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytubemq.errors import TubeError
from pytubemq.server.compose import Endpoints
from pytubemq.server.files import make_directory
from pytubemq.server.sources import ENV_PREFIX, to_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.server.settings import Settings

START_TIMEOUT_S = 30.0
"""The time to load Python, read a large journal and find the Master."""
STOP_TIMEOUT_S = 5.0
LOG_TAIL_BYTES = 2_000


class ServerProcess:
    """`python -m pytubemq server run ROLE` with its settings file and its log beside the data.

    With `shares_log` it logs to this process's standard error instead, each line with its name.
    """

    def __init__(self, role: str, settings: Settings, *, name: str | None = None, shares_log: bool = False) -> None:
        self.role = role
        self.name = name or role
        self.settings = settings
        self.endpoints = Endpoints()
        self.refused_by_master: str | None = None
        """The reason why the Master refuses the started Broker; None if it does not."""
        self.log_path = settings.data_dir / f"{self.name}.log"
        self._shares_log = shares_log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        """True if there is a child that has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self, *, timeout_s: float = START_TIMEOUT_S) -> Endpoints:
        """Start it and wait until it serves.

        Raises:
            TubeError: it ended, with the child's error if it reported one; or did not serve in time; the text is
                then the end of its log.
        """
        directory = make_directory(self.settings.data_dir)
        path = directory / f"{self.name}.toml"
        path.touch(mode=0o600)
        path.chmod(0o600)  # it may hold a token
        path.write_text(to_toml(self.settings), "utf-8")
        # Only the file counts: our environment was read when the settings were built.
        environ = {key: value for key, value in os.environ.items() if not key.startswith(ENV_PREFIX)}
        named = ("--log-name", self.name) if self._shares_log else ()
        with contextlib.ExitStack() as stack:
            log = None if self._shares_log else stack.enter_context(self.log_path.open("ab"))
            log_start = 0 if log is None else log.tell()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "pytubemq", "server", "run", self.role, "-c", str(path), "--stop-on-eof", *named,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, env=environ,
                start_new_session=True,
            )  # fmt: skip
        try:
            self.endpoints = await asyncio.wait_for(self._ready_line(), timeout_s)
        except (TimeoutError, ValueError) as error:
            await self.kill()
            if self._shares_log:
                late = isinstance(error, TimeoutError)
                reason = f"it does not serve after {timeout_s:g} s" if late else "it ended without a reason"
                raise TubeError(f"{self.name} did not start: {reason}", hint="check its log above") from None
            raise TubeError(
                f"{self.name} as a child process did not start: {self._log_tail(log_start)}",
                hint=f"its log is {self.log_path}",
            ) from error
        except BaseException:
            await self.kill()
            raise
        self._keep_ports()
        return self.endpoints

    async def kill(self) -> None:
        """Send SIGKILL, and wait until it is gone. Does nothing if it is not running."""
        await self._end(signal.SIGKILL)

    async def close(self) -> None:
        """Send SIGTERM; SIGKILL after STOP_TIMEOUT_S."""
        try:
            await asyncio.wait_for(self._end(signal.SIGTERM), STOP_TIMEOUT_S)
        except TimeoutError:
            await self.kill()

    async def restart(self, *, timeout_s: float = START_TIMEOUT_S) -> Endpoints:
        """Start again at the same addresses, stopping it first when it runs."""
        if self.running:
            await self.close()
        return await self.start(timeout_s=timeout_s)

    async def wait(self) -> int:
        """Wait until it ends; return its exit code (negative: the signal)."""
        if self._process is None:
            raise TubeError(f"{self.name} was not started")
        return await self._process.wait()

    def tell(self, word: Mapping[str, object]) -> None:
        """Send it one line of JSON on its standard input; lost when it does not run."""
        if self.running and self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):  # it is ending
                self._process.stdin.write(json.dumps(word).encode() + b"\n")

    async def _ready_line(self) -> Endpoints:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        found = json.loads(line)
        if not found.get("ready"):
            raise _failure(self.name, found, log=None if self._shares_log else self.log_path)
        self.refused_by_master = found.get("refused_by_master")
        return Endpoints(**{one.name: found.get(one.name) for one in fields(Endpoints)})

    async def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            # Not `send_signal`, which reaps a child that has just ended and so takes its exit code from the watcher.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
            await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        # Close our end of the child's output now and not when the garbage collector comes by.
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()

    def _keep_ports(self) -> None:
        """Keep ports that were "any free one" for the next start, since others know them now."""
        settings = self.settings
        if self.endpoints.master is not None:
            settings = _listening(settings, "master", self.endpoints.master)
        if self.endpoints.broker is not None:
            settings = _listening(settings, "broker", self.endpoints.broker)
        for section, address in (("master", self.endpoints.master_tls), ("broker", self.endpoints.broker_tls)):
            if address is not None:
                settings = _with_tls_port(settings, section, int(address.rpartition(":")[2]))
        if self.endpoints.http is not None:
            settings = _listening(settings, "http", self.endpoints.http.partition("://")[2])
        if self.endpoints.broker_http is not None:
            address = self.endpoints.broker_http.partition("://")[2]
            settings = _listening(settings, "broker", address, key="http_listen")
        self.settings = settings

    def _log_tail(self, start: int) -> str:
        try:
            with Path(self.log_path).open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(start, end - LOG_TAIL_BYTES))
                return log.read().decode("utf-8", "replace").strip() or "it printed nothing"
        except OSError as error:
            return f"its log cannot be read: {error}"


def failed_line(error: TubeError) -> str:
    """Return the line of a child that failed, instead of the line with its addresses; `start` raises the same error."""
    report = {"error": type(error).__name__, "message": error.message, "hint": error.hint, "code": error.code}
    return json.dumps({"ready": False, **report})


def _failure(name: str, report: Mapping[str, Any], *, log: Path | None) -> TubeError:
    """Return the error of `failed_line`, of the same class, so that it ends with the same exit code."""
    kind = _kinds(TubeError).get(str(report.get("error")), TubeError)
    hints = [report.get("hint"), None if log is None else f"its log is {log}"]
    hint = "; ".join(filter(None, hints)) or None
    return kind(f"{name} did not start: {report.get('message')}", hint=hint, code=report.get("code"))


def _kinds(root: type[TubeError]) -> dict[str, type[TubeError]]:
    """Return the errors whose constructors take a message, a hint and a code."""
    found = {root.__name__: root} if root.__init__ is TubeError.__init__ else {}
    for kind in root.__subclasses__():
        found |= _kinds(kind)
    return found


def _with_tls_port(settings: Settings, section: str, port: int) -> Settings:
    part = msgspec.structs.replace(getattr(settings, section), tls_port=port)
    return msgspec.structs.replace(settings, **{section: part})


def _listening(settings: Settings, section: str, address: str, *, key: str = "listen") -> Settings:
    before = getattr(settings, section)
    if not getattr(before, key).endswith(":0"):
        return settings
    return msgspec.structs.replace(settings, **{section: msgspec.structs.replace(before, **{key: address})})
