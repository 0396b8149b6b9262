"""What a process under test does that it must not: found by an audit hook, its log, its loop, and the system's figures.

The invariant: a path outside of the process's own folder is neither written nor removed, and no address but this
machine's own is asked for: the hook refuses it, whatever else goes wrong, and the report names it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import logging
import os
import re
import resource
import socket
import sys
import sysconfig
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Final, cast

from pytubemq.observe import logs

MOST_PROBLEMS: Final = 20
MOST_CHARS: Final = 3_000
WORTH_S: Final = 0.001
"""A callback below this is not looked at: most are."""
LOOPBACK: Final = ("127.", "localhost", "0.0.0.0")
READ_PREFIXES: Final = tuple(
    {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, *sysconfig.get_paths().values())}
    | {"/usr", "/etc", "/proc", "/sys", "/dev/", "/lib"}
)
"""Where Python and the system are; resolved, as paths are before they are looked for here: `.venv` may be a link."""
CHANGES: Final = frozenset(
    {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
     "os.utime", "shutil.rmtree", "shutil.move", "shutil.copyfile", "sqlite3.connect", "os.setxattr", "os.chflags"}
)  # fmt: skip
NEVER: Final = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.find_class", "urllib.Request"}
)  # fmt: skip
"""Nothing that a peer says may bring a server or a client to any of these."""
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_LINE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")
_FIGURES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\d+|0x[0-9a-f]+")
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class Watch:
    """Problems and figures of this process from `begin` on."""

    def __init__(self, folder: Path, source: Path) -> None:
        self._folder = os.path.realpath(folder)
        self._may_read = (*READ_PREFIXES, os.path.realpath(source), self._folder)
        self.beside = 0
        """Messages that went through a sound cluster beside."""
        self.creating: asyncio.Task[None] | None = None
        self._problems: list[str] = []
        self._kinds: set[str] = set()
        self._log = io.StringIO()
        self._log_bytes = 0
        self._log_lines = 0
        self._longest_s = 0.0
        self._longest = ""
        self._begun = False
        self._auditing = threading.local()
        self._resident_bytes = 0

    def begin(self) -> None:
        """Watch from here on; imports and the start are behind us."""
        logs.configure(level="info", form="text", stream=_Lines(self))
        logging.getLogger().addHandler(_Faults(self))
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        sys.unraisablehook = lambda info: self.problem(f"unraisable: {info.exc_value!r} in {info.object!r}")
        threading.excepthook = lambda info: self.problem(f"thread died: {info.exc_value!r}")
        _time_callbacks(self)
        gc.collect()
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        self._resident_bytes = _status("VmRSS")
        self._begun = True
        sys.addaudithook(self._audit)

    def problem(self, text: str) -> None:
        """Keep a problem for the report; of those that differ in figures and quoted texts alone the first."""
        kind = _FIGURES.sub("", text)[:200]
        if kind not in self._kinds and len(self._problems) < MOST_PROBLEMS:
            self._kinds.add(kind)
            self._problems.append(text[:MOST_CHARS])

    def report(self) -> dict[str, Any]:
        """Return what was found and the figures so far, JSON-ready."""
        gc.collect()
        return {
            "problems": list(self._problems),
            "resident_bytes": _status("VmRSS"),
            "grown_bytes": _status("VmHWM") - self._resident_bytes,
            "longest_callback_s": self._longest_s,
            "longest_callback": self._longest,
            "calibration_s": calibration_s(),
            "beside": self.beside,
            "tasks": len(asyncio.all_tasks()),
            "open_files": len(os.listdir("/proc/self/fd")),
            "log_lines": self._log_lines,
            "log_bytes": self._log_bytes,
            "cpu_s": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
        }

    # --- the log --------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One write of the log's handler: one line, or one with a traceback, which is a problem of its own."""
        self._log_bytes += len(text)
        self._log_lines += 1
        first, *more = text.removesuffix("\n").split("\n")
        if not _LINE.match(first) or not all(line.startswith(" ") for line in more):
            self.problem(f"a log line that is none: {text[:300]!r}")
        if _CONTROL.search(text):
            self.problem(f"a control character in a log line: {text[:300]!r}")

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        shown = "".join(traceback.format_exception(error)) if error is not None else ""
        self.problem(f"unhandled in the loop: {context.get('message')}\n{shown}")

    # --- the loop -------------------------------------------------------------------------------------------

    def took(self, seconds: float, what: object) -> None:
        """A callback of the loop used so much of the processor."""
        if seconds > self._longest_s:
            self._longest_s = seconds
            self._longest = str(what)[:200]

    # --- files and sockets ----------------------------------------------------------------------------------

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if getattr(self._auditing, "on", False):
            return
        self._auditing.on = True
        try:
            self._look_at(event, arguments)
        finally:
            self._auditing.on = False

    def _look_at(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            self._check_path(event, path, writes=not isinstance(flags, int) or bool(flags & _WRITING))
        elif event in CHANGES:
            for path in arguments[: 2 if event in ("os.rename", "os.link", "os.symlink", "shutil.move") else 1]:
                self._check_path(event, path, writes=True)
        elif event in ("os.listdir", "os.scandir"):
            self._check_path(event, arguments[0], writes=False)
        elif event == "socket.connect":
            self._check_host(event, arguments[1])
        elif event == "socket.getaddrinfo":
            self._check_host(event, arguments)
        elif event in NEVER:
            self.problem(f"{event} {arguments!r:.300}")
            raise PermissionError(f"{event} is not allowed here")

    def _check_path(self, event: str, path: object, *, writes: bool) -> None:
        if isinstance(path, int) or path is None:
            return
        where = os.path.realpath(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else str(path)
        allowed = (self._folder, "/dev/null", "/proc/self") if writes else self._may_read
        if not any(where == one or where.startswith(one.rstrip("/") + "/") for one in allowed):
            stack = "".join(traceback.format_stack(limit=8)[:-3])
            self.problem(f"{event} of {where!r}, outside of {self._folder}\n{stack}")
            raise PermissionError(f"{event} of {where!r} is not allowed here")

    def _check_host(self, event: str, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else address
        if not isinstance(host, str) or not host.startswith(LOOPBACK):
            # A client may well try to reach what it was told of; here nothing else is there.
            raise socket.gaierror(socket.EAI_NONAME, "nothing but this machine can be reached from here")


class _Lines(io.StringIO):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def write(self, text: str) -> int:
        self._watch.line(text)
        return len(text)


class _Faults(logging.Handler):
    """Errors and tracebacks in the log are faults of the program: no peer may bring one about."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.INFO)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        # what a client leaves out of a damaged fetch it has to say
        reported = record.name.startswith("pytubemq.client") and "left out" in record.getMessage()
        if (record.levelno >= logging.ERROR and not reported) or record.exc_info:
            shown = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
            self._watch.problem(f"logged: {record.levelname} {record.getMessage()[:600]}\n{shown[-MOST_CHARS:]}")


def _time_callbacks(watch: Watch) -> None:
    """Measure the processor time of every callback of the loop: what it holds up all others by, on any machine."""
    handle = asyncio.events.Handle
    run = handle._run

    def timed(self: asyncio.Handle) -> None:
        begun_s = time.thread_time()
        run(self)
        took_s = time.thread_time() - begun_s
        if took_s > WORTH_S:
            owner = getattr(cast("Any", self)._callback, "__self__", None)
            watch.took(took_s, owner.get_coro() if isinstance(owner, asyncio.Task) else self)

    handle._run = timed  # type: ignore[method-assign]


def calibration_s() -> float:
    """Return the processor time of a fixed piece of work: some 10 ms on a machine of 2024."""
    best_s = float("inf")
    for _ in range(3):
        begun_s = time.thread_time()
        total = 0
        for number in range(150_000):
            total += number & 7
        best_s = min(best_s, time.thread_time() - begun_s)
    return best_s


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0
