"""Freed memory that the C library keeps, returned to the operating system.

The invariant: nothing depends on it. With another C library nothing happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Final

from pytubemq.model.limits import MIB

LEAST_PEAK_BYTES: Final = 64 * MIB
"""The least peak of buffered bytes after which returning memory is worth its cost."""


def release_free_memory() -> bool:
    """Return free pages; True if there were any.

    Small objects that outlive a flood keep its pages from going back (glibc gives back only what lies above the last
    one), so a process stays as large as it ever was. This also returns the pages between them.
    """
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no such library, or no such function in it
        return bool(ctypes.CDLL(None).malloc_trim(0))
    return False
