"""The Java servers as processes: their files, their ports, their start and their end.

The invariant: a server ends with the process that started it, however that ends (where `setpriv` is there for it).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import shutil
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.ports import free_port
from tests.support.proc import DIE_WITH_US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .fetch import Java

STOP_TIMEOUT_S = 20.0
LAST_WORDS_CHARACTERS = 1_000
MEMORY = Path("/dev/shm")
TOKEN = "interop-4kQ9zR2mVx7bT1nYc8WdLp"
DATABASE_SETTINGS = "je.freeDisk=0\n"
"""Else the Java Master's database takes no write, and says so in its own log alone, with less than 5 GiB free."""
MASTER = "org.apache.inlong.tubemq.server.tools.MasterStartup"
BROKER = "org.apache.inlong.tubemq.server.tools.BrokerStartup"


@dataclass
class JavaProcess:
    """One JVM with a server."""

    java: Java
    directory: Path
    main: str
    ini: str
    options: tuple[str, ...] = ()
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        return self.directory / "log.txt"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it; who needs it waits until it serves."""
        (self.directory / "server.ini").write_text(self.ini)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *DIE_WITH_US, self.java.command, *self.options, f"-Dlog4j.configurationFile={self.java.log_config}",
                "-cp", self.java.server_path, self.main, "-f", "server.ini",
                cwd=self.directory, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it and wait for that."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def kill(self) -> None:
        """End it without any goodbye."""
        await self.stop(signal.SIGKILL)

    def last_words(self) -> str:
        """The ends of its logs, for the error of who waits for it in vain."""
        logs = [path for path in (self.log, *self.directory.rglob("je.info.0")) if path.exists()]
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-LAST_WORDS_CHARACTERS:]}" for path in logs)


class JavaMaster(JavaProcess):
    """A Master of the Java system, first or standby of its group."""

    def __init__(
        self,
        java: Java,
        directory: Path,
        *,
        name: str = "m1",
        helper: str = "",
        visit_tokens: bool = False,
        tls: Mapping[str, object] | None = None,
        switches: Mapping[str, object] | None = None,
    ) -> None:
        """`tls`: the section `tlsSetting` without the port; `switches`: more of the section `master`."""
        self.tls_port = free_port()
        self.port, self.web_port, self.rep_port = free_port(), free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.web = f"http://127.0.0.1:{self.web_port}"
        self.rep_address = f"127.0.0.1:{self.rep_port}"
        _write_pages(directory)
        super().__init__(java, directory, MASTER, _ini({
            "master": {
                "hostName": "127.0.0.1", "port": self.port, "webPort": self.web_port, "confModAuthToken": TOKEN,
                "webResourcePath": "resources", "consumerBalancePeriodMs": 10_000,
                "startVisitTokenCheck": str(visit_tokens).lower(), **(switches or {}),
            },
            "meta_bdb": {
                "repNodeName": name, "repNodePort": self.rep_port, "metaDataPath": _metadata_path(directory),
                "repHelperHost": helper or self.rep_address,
            },
            **({} if tls is None else {"tlsSetting": {**tls, "tlsPort": self.tls_port}}),
        }), ("-Xmx256m",))  # fmt: skip


class JavaBroker(JavaProcess):
    """A Broker of the Java system."""

    def __init__(
        self,
        java: Java,
        directory: Path,
        *,
        broker_id: int,
        host: str,
        masters: str,
        port: int | None = None,
        tls: Mapping[str, object] | None = None,
        switches: Mapping[str, object] | None = None,
    ) -> None:
        """`tls`: the section `tlsSetting` without the port; `switches`: more of the section `broker`."""
        self.tls_port = free_port()
        self.broker_id, self.host = broker_id, host
        self.port, self.web_port = port or free_port(), free_port()
        self.web = f"http://127.0.0.1:{self.web_port}"
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(java, directory, BROKER, _ini({
            "broker": {
                "brokerId": broker_id, "hostName": host, "port": self.port, "webPort": self.web_port,
                "masterAddressList": masters, "primaryPath": "data/store", "maxSegmentSize": 1 << 30,
                "transferSize": 1 << 19, "visitTokenCheckInValidTimeMs": 60_000, **(switches or {}),
            },
            **({} if tls is None else {"tlsSetting": {**tls, "tlsPort": self.tls_port}}),
        }), ("-Xmx512m", "-XX:MaxDirectMemorySize=512m"))  # fmt: skip


def _metadata_path(directory: Path) -> str:
    """Where the Java Master keeps its metadata.

    Its database asks for the file system it is on, which Java does not find where the root is no mount point, as in a
    plain chroot; then it is in memory.
    """
    path = directory / "data" / "meta"
    if not _has_mount_point(directory) and _has_mount_point(MEMORY):
        path = Path(tempfile.mkdtemp(prefix="pytubemq-interop-", dir=MEMORY))
        atexit.register(shutil.rmtree, path, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    (path / "je.properties").write_text(DATABASE_SETTINGS)
    return str(path)


def _has_mount_point(path: Path) -> bool:
    """Whether the file system of an existing directory is in the system's list of mounts."""
    try:
        mounts = {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}
        device = path.stat().st_dev
    except OSError:
        return False
    return any(str(one) in mounts and one.stat().st_dev == device for one in (path, *path.parents))


def _ini(sections: dict[str, dict[str, object]]) -> str:
    lines: list[str] = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key}={value}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _write_pages(directory: Path) -> None:
    """The few templates without which the Java Master's HTTP does not start."""
    templates = directory / "resources" / "templates"
    (templates / "screen").mkdir(parents=True)
    (templates / "layout").mkdir()
    (templates.parent / "velocity.properties").write_text(
        "resource.loaders=file\n"
        "resource.loader.file.class=org.apache.velocity.runtime.resource.loader.FileResourceLoader\n"
        "resource.loader.file.path=resources/templates\n"
    )
    (templates / "screen" / "webapi.vm").write_text("$sb")
    for name in ("webapi", "default"):
        (templates / "layout" / f"{name}.vm").write_text("$screen_placeholder")
