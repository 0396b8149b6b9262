"""What the device under the data directory can do: how long one flush takes, how fast flushed writing goes on.

Written as the Broker's journal is: appended to a file, then `fdatasync`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def flush_p50_s(directory: Path, *, size_bytes: int = 1024, count: int = 1_000) -> float:
    """Median seconds of appending one block and flushing it."""
    block = os.urandom(size_bytes)
    taken: list[float] = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        fd = file.fileno()
        for number in range(count):
            begun_s = time.perf_counter()
            os.pwrite(fd, block, number * size_bytes)
            os.fdatasync(fd)
            taken.append(time.perf_counter() - begun_s)
    return statistics.median(taken)


def sequential_bytes_per_s(directory: Path, *, total_bytes: int = 512 * MIB, block_bytes: int = 4 * MIB) -> float:
    """Bytes a second appended in large blocks, each flushed."""
    block = os.urandom(block_bytes)
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        fd = file.fileno()
        begun_s = time.perf_counter()
        for at in range(0, total_bytes, block_bytes):
            os.pwrite(fd, block, at)
            os.fdatasync(fd)
        return total_bytes / (time.perf_counter() - begun_s)


def settle() -> None:
    """Have the system write out what earlier runs left in its memory, so that it does not disturb the next."""
    os.sync()
