"""The sync connections that a program has left open when it ends: they are closed, within bounds, with a warning.

The invariant: a program that ends by itself, by `sys.exit` or by an exception loses nothing that it submitted, unless
that takes longer than a client may take to close; one that is killed, or ends by `os._exit`, loses it.
"""

from __future__ import annotations

import atexit
import logging
import os
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_open: dict[int, tuple[str, Callable[[], None], int]] = {}
"""The connections that are open, by a number: name, the function that closes it, the process that opened it."""


def close_at_exit(number: int, name: str, close: Callable[[], None]) -> None:
    """Have a connection closed at the end of the program, unless `forget` is called before."""
    _open[number] = name, close, os.getpid()


def forget(number: int) -> None:
    """Forget a connection, since it is closed. Idempotent."""
    _open.pop(number, None)


def close_all() -> None:
    """Close what is open, and warn of it."""
    for name, close, pid in list(_open.values()):
        if pid != os.getpid():
            continue  # a forked child's parent closes it
        warnings.warn(f"{name} was not closed before the program ended", ResourceWarning, stacklevel=1)
        logger.warning("%s is closed now, as the program ends; leave its `with` block or call close()", name)
        try:
            close()
        except Exception as error:
            logger.error("%s: %s", name, error)
    _open.clear()


atexit.register(close_all)
