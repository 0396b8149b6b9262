"""Metrics of this process, from the operating system.

The invariant: a platform that does not report a value has no such metric; nothing is raised.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq._version import __version__
from pytubemq.observe.metrics import Source, counter, gauge

if TYPE_CHECKING:
    from pytubemq.observe.metrics import Values

_PROC: Final = Path("/proc/self")
_STARTED_S: Final = time.time()
"""The time when this was imported, which a server does at its start."""


def _resident_bytes(_: object) -> Values:
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int((_PROC / "statm").read_text("ascii").split()[1])
        return {(): pages * os.sysconf("SC_PAGE_SIZE")}
    return {}


def _open_fds(_: object) -> Values:
    with contextlib.suppress(OSError):
        return {(): len(os.listdir(_PROC / "fd"))}
    return {}


def _max_fds(_: object) -> Values:
    if sys.platform == "win32":
        return {}
    import resource

    return {(): resource.getrlimit(resource.RLIMIT_NOFILE)[0]}


PROCESS_METRICS: tuple[Source[object], ...] = (
    gauge(
        "build_info", "1, with the version of this software as its label", lambda _: {(__version__,): 1}, ("version",)
    ),
    gauge("process_start_time_seconds", "When this process started, in seconds since 1970", lambda _: _STARTED_S),
    counter("process_cpu_seconds_total", "CPU time used by this process", lambda _: time.process_time()),
    gauge("process_resident_memory_bytes", "Resident memory of this process", _resident_bytes),
    gauge("process_open_fds", "Open files and connections of this process", _open_fds),
    gauge("process_max_fds", "Most files and connections that this process may have open", _max_fds),
)
"""The metrics of any server."""
