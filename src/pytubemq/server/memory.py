"""What the C library does with memory that was freed, where it can be told.

The invariant: nothing depends on it. Where the library is another one, everything works as well, and more slowly.
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
"""The most that glibc takes for this."""
_KEPT_BYTES: Final = 64 * MIB


def keep_freed_memory() -> bool:
    """Let frames, packs and journal blocks use the memory that the ones before them used.

    By default glibc gives buffers of a megabyte back to the operating system as soon as they are freed, and the next
    one is filled with zeros again, page by page: that takes longer than to receive and check what is in it. At most
    `_KEPT_BYTES` stay with the process unused.

    Returns:
        Whether the library took it.
    """
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no such library, or no such function in it
        option = ctypes.CDLL(None).mallopt
        return bool(option(_MMAP_THRESHOLD, _LARGEST_FROM_HEAP_BYTES) and option(_TRIM_THRESHOLD, _KEPT_BYTES))
    return False
