"""Input in pieces, read on a thread so that sending goes on meanwhile and Ctrl-C always works.

The invariant: at most PIECES_AHEAD pieces of PIECE_BYTES are read ahead, and lines come out as they went in, without
their line end (LF or CRLF).
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PIECE_BYTES = 256 * 1024
PIECES_AHEAD = 4


async def pieces(descriptor: int) -> AsyncIterator[bytes]:
    """Yield the pieces read from a file descriptor until its end."""
    # Not the default executor, whose threads are waited for at exit, and not a buffered reader, whose lock a thread
    # blocked on a terminal would hold for ever.
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(PIECES_AHEAD)
    # The thread's own, since the caller may close the other, whose number may then be another file's.
    own = os.dup(descriptor)

    def read() -> None:
        try:
            found: bytes | OSError = b"more"
            while found and not isinstance(found, OSError):
                room.acquire()
                try:
                    found = os.read(own, PIECE_BYTES)
                except OSError as error:
                    found = error
                loop.call_soon_threadsafe(queue.put_nowait, found)
        except RuntimeError:  # the loop has ended meanwhile
            pass
        finally:
            os.close(own)

    threading.Thread(target=read, name="pytubemq-input", daemon=True).start()
    while piece := await queue.get():
        if isinstance(piece, OSError):
            raise piece
        room.release()
        yield piece


async def lines(descriptor: int, *, max_line_bytes: int) -> AsyncIterator[list[bytes]]:
    """Yield lines as they come, many at a time; the last needs no line end.

    Raises:
        ValueError: a line is longer than `max_line_bytes`.
    """
    rest = b""
    async for piece in pieces(descriptor):
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > max_line_bytes:
            raise ValueError(f"a line is longer than {max_line_bytes:,} bytes")
        if whole:
            yield [line.removesuffix(b"\r") for line in whole] if b"\r" in piece or whole[0].endswith(b"\r") else whole
    if rest:
        yield [rest]
