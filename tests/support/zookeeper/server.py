"""A ZooKeeper server of the tests' own: made anew, on a port of its own, ended with the block."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq.core.database.zookeeper_options import ZooKeeperOptions
from tests.interop.fetch import FetchError, cached, digest_of, run_tool, tool
from tests.support.ports import free_port
from tests.support.proc import DIE_WITH_US
from tests.support.waiting import until_seen

if TYPE_CHECKING:
    import signal
    from types import TracebackType

POM = Path(__file__).with_name("pom.xml")
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 60.0
PASSWORD: Final = "of no account: it listens on loopback, for a test"


def missing() -> str:
    """Say what keeps the server from running here; blank if nothing does."""
    if importlib.util.find_spec("kazoo") is None:
        return "the package kazoo is not installed: run  scripts/setup"
    try:
        jars()
    except FetchError as error:
        return f"there is no ZooKeeper server here: run  scripts/setup --zookeeper  ({error})"
    return ""


def jars() -> Path:
    """Have the server's jars, fetched once.

    Raises:
        FetchError: Maven is missing or could not download.
    """
    return cached(f"zookeeper-{digest_of([POM])}", _download)


def _download(into: Path) -> None:
    copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={into}"]
    run_tool([tool("mvn"), "-B", "-q", "-ntp", "-f", str(POM), *copy], into)
    if not list(into.glob("zookeeper-3*.jar")):
        raise FetchError(f"Maven fetched no ZooKeeper, see {POM}")


class ZooKeeper:
    """A server on loopback; `home` gets its files and its log."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._log = home / "zookeeper.log"
        self._port = free_port()
        self._nodes = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        settings = {
            "dataDir": home / "data", "clientPort": self._port, "clientPortAddress": "127.0.0.1", "tickTime": 2000,
            "admin.enableServer": "false", "maxClientCnxns": 0, "4lw.commands.whitelist": "*",
        }  # fmt: skip
        (home / "zoo.cfg").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._port}"

    def new_root(self) -> str:
        """Return a node's path that no other test has."""
        return f"/of_test_{next(self._nodes)}/records"

    def options(self, root: str, *, address: str | None = None) -> ZooKeeperOptions:
        """The options of a node; the address may be another way to the server."""
        return ZooKeeperOptions(f"zookeeper://tester@{address or self.address}{root}", PASSWORD)

    def signal(self, number: signal.Signals) -> None:
        """Send the server a signal, as SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        """Kill the server; it keeps its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)

    def start(self) -> None:
        """Start it with the data that it has, from the main thread: it ends with the thread that starts it."""
        java = [tool("java"), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*DIE_WITH_US, *java, "-cp", f"{jars()}/*", main, str(self._home / "zoo.cfg")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._home,
            )  # fmt: skip
        until_seen(self._is_ready, timeout_s=START_TIMEOUT_S, every_s=0.05, why=self._log.read_text)

    def __enter__(self) -> ZooKeeper:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False


if __name__ == "__main__":
    print(jars())
