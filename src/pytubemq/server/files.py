"""How many files and connections this process may have open.

The invariant: connections never use up what the storage needs, so a crowd of clients is refused and no write is.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Final

from pytubemq.model.limits import MAX_CONNECTIONS, MAX_OPEN_FILES

RESERVED_FILES: Final = 640
"""For partitions' logs and indexes (256), the journal, the metadata, HTTP (256), and what Python itself needs."""


def raise_file_limit() -> int:
    """Take as many open files as the operating system lets this process have, within MAX_OPEN_FILES.

    Returns:
        How many it may have open now.
    """
    if sys.platform == "win32":
        return MAX_OPEN_FILES
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # what it has then is counted below
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return file_limit()


def file_limit() -> int:
    """How many files this process may have open."""
    if sys.platform == "win32":
        return MAX_OPEN_FILES
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft


def connections_within(files: int, *, servers: int = 1) -> int:
    """How many connections each of the `servers` of a process may accept that may have `files` files open."""
    spare = max(files - RESERVED_FILES, files // 4)
    return max(1, min(MAX_CONNECTIONS, spare // servers))
