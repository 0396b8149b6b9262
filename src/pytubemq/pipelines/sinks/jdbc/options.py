"""Options that the sink `jdbc` adds to those of a file: the driver's class, a bound for every wait, what texts are.

The invariant: no statement and no connection waits for ever, unless the file says so (`queryTimeout: 0`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

DRIVERS: Final = {
    "jdbc:postgresql:": "org.postgresql.Driver",
    "jdbc:derby:": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    "jdbc:mysql:": "com.mysql.cj.jdbc.Driver",
    "jdbc:mariadb:": "org.mariadb.jdbc.Driver",
    "jdbc:h2:": "org.h2.Driver",
}
QUERY_TIMEOUT: Final = "queryTimeout"
"""Spark's own option, in seconds."""
QUERY_TIMEOUT_S: Final = 600
LOGIN_TIMEOUT_S: Final = 30
SOCKET_MORE_S: Final = 60
"""Longest silence of a connection beyond that of a statement."""
_MS: Final = 1000
_BOUNDS: Final = {
    "jdbc:postgresql:": (("loginTimeout", "socketTimeout"), 1),
    "jdbc:mysql:": (("connectTimeout", "socketTimeout"), _MS),
    "jdbc:mariadb:": (("connectTimeout", "socketTimeout"), _MS),
}
"""The drivers' names for the longest wait for a connection and for a response, and their unit as a part of a second."""
_TEXTS: Final = {"jdbc:postgresql:": ("stringtype", "unspecified")}
"""Options by which a database reads Spark's texts as a uuid, jsonb, an enum or what else the column is."""


def jdbc_options(url: str, options: Mapping[str, str], *, sink: str) -> dict[str, str]:
    """Complete the options with all that they need; what the file says stays as it is.

    Raises:
        ConfigError: the driver of the database is not known, or a timeout is no number.
    """
    given = {name.lower(): value for name, value in options.items()}
    driver = given.get("driver") or next((name for start, name in DRIVERS.items() if url.startswith(start)), None)
    if driver is None:
        raise ConfigError(
            f"sink {sink}: the driver of this url is not known", hint="name its class in options: {driver: ...}"
        )
    longest_s = query_timeout_s(options, sink=sink)
    added = {"driver": driver, QUERY_TIMEOUT: str(longest_s)}
    for start, ((login, answer), part) in _BOUNDS.items():
        if url.startswith(start):
            added[login] = str(LOGIN_TIMEOUT_S * part)
            added[answer] = str((longest_s + SOCKET_MORE_S) * part if longest_s else 0)
    added.update(option for start, option in _TEXTS.items() if url.startswith(start))
    named = url.lower()
    needed = {k: value for k, value in added.items() if k.lower() not in given and f"{k.lower()}=" not in named}
    return {**needed, **options}


def query_timeout_s(options: Mapping[str, str], *, sink: str) -> int:
    """Return how long a statement may take, in seconds; 0: as long as it likes.

    Raises:
        ConfigError: it is no number.
    """
    text = next((value for name, value in options.items() if name.lower() == QUERY_TIMEOUT.lower()), None)
    if text is None:
        return QUERY_TIMEOUT_S
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"sink {sink}: {QUERY_TIMEOUT} = {text!r} is not a number of seconds")
    return int(text)
