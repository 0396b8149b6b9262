"""What is fetched or built once and kept outside the repository, below `~/.cache/pytubemq`.

The invariant: a directory is named by the contents of what it was made from, and has its name only when it is whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.processes import RunError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


def cache_dir() -> Path:
    """`~/.cache/pytubemq`, or below XDG_CACHE_HOME."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pytubemq"


async def cached(kind: str, sources: Sequence[Path], make: Callable[[Path], Awaitable[None]]) -> Path:
    """The directory of that kind made from these files by `make`, now or earlier."""
    final = cache_dir() / kind / _hash(sources)
    if final.is_dir():
        return final
    making = final.with_name(f"{final.name}.{os.getpid()}")
    making.mkdir(parents=True)
    try:
        await make(making)
        try:
            making.rename(final)
        except OSError:
            if not final.is_dir():  # another run was quicker
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return final


def tool(name: str, install: str) -> str:
    """Where a program is.

    Raises:
        RunError: it is missing; the text says what to install.
    """
    found = shutil.which(name)
    if found is None:
        raise RunError(f"{name} is missing; install it as root:  {install}")
    return found


def _hash(files: Sequence[Path]) -> str:
    sha = hashlib.sha256()
    for file in files:
        sha.update(file.read_bytes())
    return sha.hexdigest()[:16]
