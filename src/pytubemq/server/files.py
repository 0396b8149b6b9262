"""The data directory of a server, and the number of files and connections that its process may have open.

The invariant: logs, protocol and HTTP together leave `RESERVED_FILES` free (of few files a quarter), so that a crowd
of clients is refused and no write is.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytubemq.errors import ConfigError
from pytubemq.model.limits import MAX_CONNECTIONS, MAX_HTTP_CONNECTIONS, MAX_OPEN_FILES, MAX_OPEN_LOG_FILES
from pytubemq.storage.disk.disk import make_private

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

RESERVED_FILES: Final = 128
"""For the journal, the metadata, log files in use beside those kept open, calls to a Master, and Python itself."""
_HTTP_PART: Final = 8
"""The divisor for the share of HTTP, which is for people and their tools."""
FEW_FILES: Final = 4096
"""The number below which a server logs the consequences at its start."""
_SAID_AGAIN_S: Final = 10.0
_NO_HANDLE: Final = ("socket.accept() out of system resource", "error status in uv_stream_t.listen callback")
"""The texts by which asyncio and uvloop report that a connection could not be accepted without a free file handle."""


def raise_file_limit() -> int:
    """Raise this process's limit of open files as far as the operating system allows, within MAX_OPEN_FILES.

    Returns:
        The number of files that it may have open now.
    """
    if sys.platform == "win32":
        return MAX_OPEN_FILES
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the limit then stays, and is read below
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    files = file_limit()
    if files != soft and soft != resource.RLIM_INFINITY:
        logger.info("this process may have %d files open (raised from %d)", files, soft)
    if files < FEW_FILES:
        logger.warning(
            "this process may have only %d files open, so it accepts %d connections and keeps %d log files open; "
            "raise the hard limit (ulimit -Hn, LimitNOFILE= of a systemd unit) to %d or more",
            files, shares(files).connections, shares(files).log_files, FEW_FILES,
        )  # fmt: skip
    return files


def file_limit() -> int:
    """Return how many files this process may have open."""
    if sys.platform == "win32":
        return MAX_OPEN_FILES
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft


class Shares(NamedTuple):
    """The number of files that each part may have open at a time."""

    log_files: int
    """Logs and indexes of partitions; the others are opened when they are needed."""
    connections: int
    """Connections of each server of the protocol."""
    http_connections: int
    """Connections of each HTTP server."""


def shares(files: int, *, servers: int = 1, http_servers: int = 1) -> Shares:
    """Return the shares of a process that may have `files` files open, for its logs and its servers."""
    left = files - min(RESERVED_FILES, files // 4)
    log_files = min(left // 2, MAX_OPEN_LOG_FILES)
    http = min(left // _HTTP_PART // max(1, http_servers), MAX_HTTP_CONNECTIONS)
    connections = min((left - log_files - http * http_servers) // max(1, servers), MAX_CONNECTIONS)
    return Shares(max(1, log_files), max(1, connections), max(1, http))


def mind_lack_of_handles(loop: asyncio.AbstractEventLoop, *, now_s: Callable[[], float] = time.monotonic) -> None:
    """Log in one line, and not again for a while, that connections cannot be accepted without a free file handle.

    The loop pauses on its own and retries a second later; without this it would log a traceback for each entry
    in its queue.
    """
    said_s: float | None = None

    def handle(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        nonlocal said_s
        if not str(context.get("message", "")).startswith(_NO_HANDLE):
            loop.default_exception_handler(dict(context))
            return
        if said_s is None or now_s() - said_s >= _SAID_AGAIN_S:
            said_s = now_s()
            logger.warning(
                "new connections wait or are closed: no file handle is free (%s); those that are open are served",
                context.get("exception"),
            )

    loop.set_exception_handler(handle)


def make_directory(path: Path) -> Path:
    """Create a directory if needed, and check that it can be written to.

    Raises:
        ConfigError: it cannot be created or written to.
    """
    try:
        make_private(path)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _no_directory(path, error) from None  # the error says everything
    return path


def _no_directory(path: Path, error: OSError) -> ConfigError:
    other = "give another one as `data` (--data)"
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            if place.exists() and not place.is_dir():
                what = "is a file" if place == path else f"cannot be created: {place} is a file"
                return ConfigError(f"the data directory {path} {what}", hint=other)
    if isinstance(error, FileNotFoundError):  # parents are created as well, so this one accepts none
        there = next((place for place in path.absolute().parents if place.exists()), Path("/"))
        return ConfigError(f"the data directory {path} cannot be created: {there} accepts no directories", hint=other)
    return ConfigError(
        f"the data directory {path} cannot be written to: {error.strerror or error}",
        hint=f"{other}, or change its owner",
    )
