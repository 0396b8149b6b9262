"""The ports of `pytubemq dev`: default ones in use are replaced by free ones, and their owners are named.

The invariant: a port that was given is never replaced. The name of an owner is a courtesy: if it cannot be determined
it is left out, and nothing is raised.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address
from pytubemq.net.free_ports import is_free, next_free
from pytubemq.server.sections.addresses import parse_address

if TYPE_CHECKING:
    from pytubemq.server.sections.broker import BrokerSection
    from pytubemq.server.sections.master import MasterSection
    from pytubemq.server.settings import Settings

_PORTS = (
    ("master", "listen", "master"),
    ("broker", "listen", "broker"),
    ("http", "listen", "http"),
    ("broker", "http_listen", "broker http"),
)
"""Section, key and name of each address."""
_TLS_PORTS = (("master", "tls_port", "master TLS"), ("broker", "tls_port", "broker TLS"))
"""Section, key and name of each port on the host of `listen`, for settings with a certificate."""
LISTENING = "0A"


def free_ports(settings: Settings, *, given: frozenset[str] = frozenset()) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings with each default port in use replaced by the next free one, and a line about each.

    Ports that were given are reserved first, so that no default takes one of them.

    Raises:
        ConfigError: a port that was given (its setting is one of `given`) is in use.
    """
    notes: list[str] = []
    chosen: set[Address] = set()
    ports = _PORTS + (_TLS_PORTS if settings.tls.cert else ())
    for section, key, name in sorted(ports, key=lambda port: f"{port[0]}.{port[1]}" not in given):
        part = getattr(settings, section)
        text = _address_text(part, key)
        if not text:
            continue
        wanted = parse_address(f"{section}.{key}", text, default_port=0)
        if f"{section}.{key}" in given and wanted.port and (wanted in chosen or not is_free(wanted)):
            owner = "another address of this cluster" if wanted in chosen else port_owner(wanted.port)
            raise ConfigError(
                f"{section}.{key}: port {wanted.port} of {text} is in use{f' by {owner}' if owner else ''}",
                hint=f"stop what listens there, or give another port; without {section}.{key} a free one is chosen",
            )
        address = wanted
        while address.port and (address in chosen or not is_free(address)):
            address = next_free(Address(address.host, address.port + 1))
        if address != wanted:
            owner = port_owner(wanted.port)
            by = f" by {owner}" if owner else ""
            notes.append(f"port {wanted.port} ({name}) is in use{by}, using {address.port}")
            part = msgspec.structs.replace(part, **{key: address.port if key == "tls_port" else str(address)})
            settings = msgspec.structs.replace(settings, **{section: part})
        chosen.add(address)
    return settings, tuple(notes)


def _address_text(part: MasterSection | BrokerSection, key: str) -> str:
    """Return the address of a setting, as text; a port alone is on the host of `listen`."""
    if key != "tls_port":
        return str(getattr(part, key))
    host = parse_address("listen", part.listen, default_port=0).host
    return str(Address(host, part.tls_port))


def port_owner(port: int, *, proc: Path = Path("/proc")) -> str | None:
    """Return `name (pid 812)` of the listener on a TCP port of this machine; None if it cannot be determined."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listeners(proc / "net" / table, port)}
    if not inodes:
        return None
    with contextlib.suppress(OSError):
        for entry in proc.iterdir():
            if entry.name.isdigit() and _holds(entry, inodes):
                name = (entry / "comm").read_text("utf-8", "replace").strip()
                return f"{name} (pid {entry.name})"
    return None


def _listeners(table: Path, port: int) -> list[str]:
    found = []
    with contextlib.suppress(OSError):
        for line in table.read_text("ascii", "replace").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found.append(fields[9])
    return found


def _holds(process: Path, inodes: set[str]) -> bool:
    with contextlib.suppress(OSError):
        return any(os.readlink(link) in inodes for link in (process / "fd").iterdir())
    return False
