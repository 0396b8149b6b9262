"""The options of a connection to PostgreSQL.

The invariant: the password is in no text. It is not part of the URL, so an error, a log line or a settings page may
show that, and `repr` leaves the password out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from pytubemq.core.database.database_limits import (
    DATABASE_CONNECT_TIMEOUT_S,
    DATABASE_KEEPALIVE_IDLE_S,
    DATABASE_KEEPALIVE_INTERVAL_S,
    DATABASE_KEEPALIVES,
    DATABASE_SEND_TIMEOUT_S,
)
from pytubemq.errors import ConfigError

SCHEMES: Final = ("postgresql", "postgres")
EXAMPLE: Final = "postgresql://pytubemq@db.example:5432/pytubemq"
_HINT: Final = f"write it as in {EXAMPLE}"
SCHEMA: Final = "pytubemq"
"""The schema with the tables of a Master, in whichever database the URL names."""
_SECRET_PARAMETERS: Final = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """A database, and the password for it.

    Args:
        url: `postgresql://USER@HOST:PORT/DATABASE?PARAMETER=VALUE`, with libpq's parameters (`sslmode`, `sslrootcert`,
            several hosts, ...) and without a password.
        password: the password; None leaves it to libpq (`passfile`, a client certificate, no password at all).

    Raises:
        ConfigError: the URL is not one of PostgreSQL, names no database, or has a password; the text does not repeat
            that.
    """

    url: str
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        scheme, separator, rest = self.url.partition("://")
        try:
            parts = urlsplit(self.url)
            secret = parts.password is not None or not _SECRET_PARAMETERS.isdisjoint(
                name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)
            )
        except ValueError:
            # Nothing of it is shown: what is malformed may be a password with a bracket in it.
            raise ConfigError("the URL of the database is malformed", hint=_HINT) from None
        if secret:
            raise ConfigError(
                "the URL of the database has a password, which logs, process lists and pages could show",
                hint="leave it out and put it into the file of `store_password_file`, or into the variable "
                "PYTUBEMQ_STORE_PASSWORD",
            )
        if scheme not in SCHEMES or not separator or not rest.strip("/"):
            raise ConfigError(
                "the store is neither `sqlite` nor the URL of a PostgreSQL database or of ZooKeeper", hint=_HINT
            )
        if not unquote(parts.path).strip("/"):
            raise ConfigError(f"{self.place} names no database", hint=_HINT)

    @property
    def place(self) -> str:
        """The URL without user and parameters, for texts."""
        parts = urlsplit(self.url)
        return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def parameters(self) -> dict[str, Any]:
        """Return libpq's parameters beside the URL: the limits of each wait, and the password.

        A limit that the URL has itself takes precedence, so that it is left out here.
        """
        found: dict[str, Any] = {
            "connect_timeout": str(DATABASE_CONNECT_TIMEOUT_S),
            "keepalives": "1",
            "keepalives_idle": str(DATABASE_KEEPALIVE_IDLE_S),
            "keepalives_interval": str(DATABASE_KEEPALIVE_INTERVAL_S),
            "keepalives_count": str(DATABASE_KEEPALIVES),
            "tcp_user_timeout": str(DATABASE_SEND_TIMEOUT_S * 1000),
            "application_name": "pytubemq",
            "client_encoding": "UTF8",
        }
        given = {name for name, _ in parse_qsl(urlsplit(self.url).query, keep_blank_values=True)}
        found = {name: value for name, value in found.items() if name not in given or name == "client_encoding"}
        return found if self.password is None else {**found, "password": self.password}
