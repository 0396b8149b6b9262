"""The options of a connection to ZooKeeper, and the nodes that a Master has there.

The invariant: the password is in no text. It is not part of the URL, so an error, a log line or a settings page may
show that, and `repr` leaves the password out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from pytubemq.core.database.database_limits import DATABASE_CONNECT_TIMEOUT_S
from pytubemq.errors import ConfigError

ZOOKEEPER_SCHEME: Final = "zookeeper"
ZOOKEEPER_EXAMPLE: Final = "zookeeper://pytubemq@zk1.example:2181,zk2.example:2181,zk3.example:2181/pytubemq"
_HINT: Final = f"write it as in {ZOOKEEPER_EXAMPLE}"
_DEFAULT_PORT: Final = 2181
_PARAMETERS: Final = frozenset({"tls_ca", "tls_cert", "tls_key"})


class _Parts(NamedTuple):
    """The parts of a URL, as they stand there."""

    scheme: str
    user: str
    servers: str
    path: str
    query: str


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """A node of ZooKeeper with everything below it, and the password of the user it belongs to.

    Args:
        url: `zookeeper://USER@HOST:PORT,HOST:PORT/PATH?tls_ca=FILE`, without a password. Without a user, anybody who
            reaches the servers may read and change the nodes. `tls_ca` has the certificates that the servers' are
            checked against, and turns TLS on; `tls_cert` and `tls_key` are our own certificate and its key.
        password: the user's password, for ZooKeeper's scheme `digest`.

    Raises:
        ConfigError: the URL is not one of ZooKeeper, names no node, or has a password; the text does not repeat that.
    """

    url: str
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = self._parts()
        try:
            given = dict(parse_qsl(parts.query, keep_blank_values=True))
        except ValueError:
            raise _malformed() from None
        if parts.servers.count("[") != parts.servers.count("]"):
            raise _malformed()
        if ":" in parts.user:
            raise ConfigError(
                "the URL of ZooKeeper has a password, which logs, process lists and pages could show",
                hint="leave it out and put it into the file of `store_password_file`, or into the variable "
                "PYTUBEMQ_STORE_PASSWORD",
            )
        if parts.scheme != ZOOKEEPER_SCHEME or not all(_is_server(server) for server in self._servers()):
            raise ConfigError("the URL of ZooKeeper names no server, or one without a valid port", hint=_HINT)
        names = self.root.strip("/").split("/")
        if not all(name and name not in {".", ".."} and name.isprintable() for name in names):
            raise ConfigError(f"{self.place} names no node for the records", hint=_HINT)
        if unknown := sorted(given.keys() - _PARAMETERS):
            raise ConfigError(
                f"the URL of ZooKeeper has an unknown parameter {unknown[0][:40]}",
                hint=f"there are {', '.join(sorted(_PARAMETERS))}",
            )
        if (given and "tls_ca" not in given) or ("tls_cert" in given) != ("tls_key" in given):
            raise ConfigError(
                "the TLS parameters in the URL of ZooKeeper are incomplete",
                hint="give tls_ca, and tls_cert and tls_key together or neither",
            )

    @property
    def place(self) -> str:
        """The URL without user and parameters, for texts."""
        parts = self._parts()
        return f"{ZOOKEEPER_SCHEME}://{parts.servers}{parts.path}"

    @property
    def hosts(self) -> str:
        """The servers, separated by commas, each with its port."""
        return ",".join(self._servers())

    @property
    def user(self) -> str:
        """The user that the nodes belong to; blank without one."""
        return unquote(self._parts().user)

    @property
    def root(self) -> str:
        """The path of the node that has everything below it."""
        return "/" + unquote(self._parts().path).strip("/")

    @property
    def connect_limit_s(self) -> float:
        """The time for a connection to one of the servers, where those that are tried first are gone."""
        return float(DATABASE_CONNECT_TIMEOUT_S * (1 + len(self._servers())))

    def tls(self) -> dict[str, str]:
        """Return the files of TLS under the names of the parameters; empty without TLS."""
        return dict(parse_qsl(self._parts().query))

    def node(self, *names: str) -> str:
        """Return the path of a node below the root."""
        return "/".join((self.root, *names))

    def _parts(self) -> _Parts:
        # By hand: for `urlsplit` a bracket may only enclose the one host that it knows, in some releases of Python.
        scheme, _, rest = self.url.partition("://")
        rest, _, query = rest.partition("?")
        netloc, slash, path = rest.partition("/")
        user, _, servers = netloc.rpartition("@")
        return _Parts(scheme, user, servers, slash + path, query)

    def _servers(self) -> list[str]:
        found = self._parts().servers.split(",")
        return [server if _has_port(server) else f"{server}:{_DEFAULT_PORT}" for server in found]


def _malformed() -> ConfigError:
    # Nothing of it is shown: what is malformed may be a password with a bracket in it.
    return ConfigError("the URL of ZooKeeper is malformed", hint=_HINT)


def _has_port(server: str) -> bool:
    return ":" in server.rpartition("]")[2]


def _is_server(server: str) -> bool:
    host, _, port = server.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16
