"""What waits to be written to a transport, gathered so that one loop turn makes one write.

The invariant: buffers leave in the order they came, and never more than `MAX_UNSENT_BYTES` wait in the transport:
a peer that does not read is cut off rather than remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.limits import MAX_UNSENT_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence


class Outbox:
    """Gathers buffers and writes them at the end of the loop turn."""

    __slots__ = ("_buffers", "_loop", "_scheduled", "_transport", "queued_bytes")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._buffers: list[bytes] = []
        self._scheduled = False
        self.queued_bytes = 0
        """Bytes put and not yet handed to the transport."""

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
        """Hand over now what is queued."""
        self._scheduled = False
        if not self._buffers:
            return
        buffers, self._buffers = self._buffers, []
        self.queued_bytes = 0
        if self._transport.is_closing():
            return
        self._transport.write(buffers[0] if len(buffers) == 1 else b"".join(buffers))
        if self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._transport.abort()
