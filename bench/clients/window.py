"""A window of time in which a client counts what it has done, and what processor time it took. Standard library alone.

The invariant: what is counted began and ended inside the window; warming up and coming to an end are not in it.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


Spec = dict[str, Any]
"""What a client is given, read from JSON."""
Result = dict[str, Any]
"""What it tells, written as JSON."""


def spec() -> Spec:
    """The object given on the command line."""
    given: Spec = json.loads(sys.argv[1])
    return given


def report(found: Result) -> None:
    """Print the result, for the one who started this."""
    print(json.dumps(found), flush=True)


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def machine_cpu_s() -> float:
    """Processor seconds that all processes of the machine have taken so far."""
    with open("/proc/stat", "rb") as file:
        user, nice, system, _idle, _waiting, *interrupts = map(int, file.readline().split()[1:8])
    return (user + nice + system + sum(interrupts)) / _TICKS_PER_S


class Window:
    """Counts between `open` and `close`, and the processor time of this process, of those named, and of all others.

    Much time of others means that the machine was not quiet, and the figures are of little worth.
    """

    def __init__(self, pids: Mapping[str, int] | None = None) -> None:
        self._pids = {"client": os.getpid(), **(pids or {})}
        self._count = 0
        self._opened_s = 0.0
        self._cpu_s: dict[str, float] = {}
        self._machine_s = 0.0

    def open(self, count: int) -> None:
        """Begin, `count` being done so far."""
        self._count = count
        self._cpu_s = {name: cpu_s(pid) for name, pid in self._pids.items()}
        self._machine_s = machine_cpu_s()
        self._opened_s = time.perf_counter()

    def close(self, count: int) -> Result:
        """End, `count` being done so far; the rates in between."""
        seconds = time.perf_counter() - self._opened_s
        done = count - self._count
        used = {name: round((cpu_s(pid) - self._cpu_s[name]) / seconds, 2) for name, pid in self._pids.items()}
        others = (machine_cpu_s() - self._machine_s) / seconds - sum(used.values())
        used["others"] = round(max(0.0, others), 2)
        return {"msgs_per_s": done / seconds, "messages": done, "seconds": round(seconds, 3), "cores": used}


def percentiles(seconds: Iterable[float]) -> dict[str, float]:
    """p50, p90, p99 and the longest in milliseconds."""
    ordered = sorted(seconds)
    if not ordered:
        return {}
    points = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    found = {name: ordered[min(len(ordered) - 1, int(point * len(ordered)))] for name, point in points.items()}
    found["max"] = ordered[-1]
    return {name: round(value * 1000, 4) for name, value in found.items()}
