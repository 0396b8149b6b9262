"""What the system tells of processes: which belong together, and which of them carry out Spark's Python tasks.

A session stays together whatever its processes do: Spark's daemon makes a process group of its own, not a session.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

DIE_WITH_US = (setpriv, "--pdeathsig", "KILL") if (setpriv := shutil.which("setpriv")) else ()
"""Before a command: the system kills it when the process that started it ends, however that ends."""
WORKER = "pyspark.daemon"


def of_session(leader: int) -> list[int]:
    """All processes of a session that are there now, its leader among them."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _field(pid, 3) == leader]


def kill_session(leader: int) -> None:
    """SIGKILL to all of them at once."""
    for pid in of_session(leader):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def python_workers(leader: int) -> list[int]:
    """A session's Python workers that carry out tasks: children of the daemon, not the daemon itself."""
    daemons = {pid for pid in of_session(leader) if WORKER in _command(pid)}
    return sorted(pid for pid in daemons if _field(pid, 1) in daemons)


def _field(pid: int, number: int) -> int | None:
    """A field of `/proc/PID/stat` behind the name: 1 the parent, 3 the session; None if the process is gone."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[number])
    return None


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""
