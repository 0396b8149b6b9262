"""The process that uses a port, for a message that helps.

The invariant: this is a courtesy; missing information is left out, and nothing is raised.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

LISTENING = "0A"


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
