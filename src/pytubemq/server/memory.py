"""Settings of the C library for freed memory, where it has them.

The invariant: nothing depends on it. With another library everything works as well, only more slowly.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Final

from pytubemq.model.limits import MIB

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Names of options of glibc's `mallopt`."""
_LARGEST_FROM_HEAP_BYTES: Final = 32 * MIB
"""The largest value that glibc accepts for this."""
_KEPT_BYTES: Final = 64 * MIB


def keep_freed_memory() -> bool:
    """Let frames, record batches and journal blocks reuse the memory of earlier ones.

    By default glibc returns buffers of a megabyte to the operating system as soon as they are freed, and the next one
    is filled with zeros again, page by page: that takes longer than to receive and check its content. At most
    `_KEPT_BYTES` stay with the process unused.

    Returns:
        True if the library accepted it.
    """
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no such library, or no such function in it
        option = ctypes.CDLL(None).mallopt
        return bool(option(_MMAP_THRESHOLD, _LARGEST_FROM_HEAP_BYTES) and option(_TRIM_THRESHOLD, _KEPT_BYTES))
    return False
