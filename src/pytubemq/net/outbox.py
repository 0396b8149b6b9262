"""Buffers that wait to be written to a transport, gathered so that one loop turn makes one write.

The invariant: buffers leave in the order they came, and never more than `MAX_UNSENT_BYTES` wait in the transport:
a peer that does not read is disconnected instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import KIB, MAX_UNSENT_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

_LARGE_BYTES: Final = 64 * KIB
"""The size from which a buffer is not copied, if the transport can write several at once."""


class Outbox:
    """Gathers buffers and writes them at the end of the loop turn."""

    __slots__ = ("_buffers", "_loop", "_on_unsent", "_scheduled", "_transport", "handed_bytes", "queued_bytes")

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        on_unsent: Callable[[], None] | None = None,
    ) -> None:
        """Call `on_unsent` after a write that the operating system did not accept as a whole."""
        self._transport = transport
        self._loop = loop
        self._buffers: list[bytes] = []
        self._scheduled = False
        self._on_unsent = on_unsent
        self.queued_bytes = 0
        """Bytes put and not yet passed to the transport."""
        self.handed_bytes = 0
        """Bytes passed to the transport since the start."""

    def put(self, buffers: Sequence[bytes]) -> None:
        """Queue buffers for one write with everything else of this loop turn."""
        if len(buffers) == 1:
            self._buffers.append(buffers[0])
            self.queued_bytes += len(buffers[0])
        else:
            self._buffers += buffers
            self.queued_bytes += sum(map(len, buffers))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Pass the queued buffers to the transport now."""
        self._scheduled = False
        if not self._buffers:
            return
        buffers, self._buffers = self._buffers, []
        large = self.queued_bytes >= _LARGE_BYTES
        self.handed_bytes += self.queued_bytes
        self.queued_bytes = 0
        if self._transport.is_closing():
            return
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        elif large:
            self._transport.writelines(_few(buffers))
        else:
            self._transport.write(b"".join(buffers))
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes:
            if unsent_bytes > MAX_UNSENT_BYTES:
                self._transport.abort()
            elif self._on_unsent is not None:
                self._on_unsent()


def _few(buffers: list[bytes]) -> list[bytes]:
    """Return the same bytes in fewer buffers: small neighbours are joined, large ones stay without a copy."""
    few: list[bytes] = []
    small: list[bytes] = []
    for buffer in buffers:
        if len(buffer) < _LARGE_BYTES:
            small.append(buffer)
            continue
        if small:
            few.append(b"".join(small))
            small = []
        few.append(buffer)
    if small:
        few.append(b"".join(small))
    return few
