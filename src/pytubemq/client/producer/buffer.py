"""The limit on a producer's messages and bytes without a result, and the backpressure when it is reached.

The invariants: one message always fits into an empty buffer, whatever its size; waiting senders are woken when there is
room, and when the buffer is empty.
"""

from __future__ import annotations

import asyncio

from pytubemq.errors import BufferFullError


class Buffer:
    """Counts of messages and bytes; the messages are in the senders."""

    def __init__(self, *, max_messages: int, max_bytes: int) -> None:
        self.messages = 0
        self.size_bytes = 0
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self._waiters: set[asyncio.Future[None]] = set()
        self._refused_messages = self._refused_bytes = 1
        """The largest refused messages and bytes since `forget_refusal`."""

    @property
    def has_room(self) -> bool:
        """True if another message of usual size fits."""
        return self.messages < self.max_messages and self.size_bytes < self.max_bytes

    def add(self, size_bytes: int, messages: int = 1) -> None:
        """Count messages that were accepted.

        Raises:
            BufferFullError: there is no room for all of them.
        """
        # An empty buffer takes anything: what is larger than all of it must get through, too.
        if self.messages and (
            self.messages + messages > self.max_messages or self.size_bytes + size_bytes > self.max_bytes
        ):
            raise self.full_error(size_bytes, messages)
        self.messages += messages
        self.size_bytes += size_bytes

    def fits(self, size_bytes: int, messages: int = 1) -> bool:
        """True if `add` will accept them. Any number fits into an empty buffer."""
        return not self.messages or (
            self.messages + messages <= self.max_messages and self.size_bytes + size_bytes <= self.max_bytes
        )

    def check_size(self, size_bytes: int, messages: int) -> None:
        """Check that messages would fit if the buffer were empty.

        Raises:
            BufferFullError: it would not.
        """
        if messages > 1 and (messages > self.max_messages or size_bytes > self.max_bytes):
            raise BufferFullError(
                f"{messages:,} messages of {size_bytes:,} bytes are more than the producer's buffer ever holds "
                f"({self.max_messages:,} messages, {self.max_bytes:,} bytes)",
                hint="use send_many(), which waits for free space, or make the buffer larger",
            )

    def remove(self, messages: int, size_bytes: int) -> None:
        """Remove messages that have their result."""
        self.messages -= messages
        self.size_bytes -= size_bytes
        # Also when it is empty: what waits may be larger than the whole buffer.
        if self._waiters and (self.has_room or not self.messages):
            self.wake()

    def has_room_for_refused(self, size_bytes: int, messages: int) -> bool:
        """True if `add` will take this much and as much as was refused last, so that a waiting sender succeeds."""
        return self.fits(max(size_bytes, self._refused_bytes), max(messages, self._refused_messages))

    def forget_refusal(self) -> None:
        """Forget the last refusal, because the waiting sender may try again."""
        self._refused_messages = self._refused_bytes = 1

    async def wait_for_change(self) -> None:
        """Wait until there is more room than before, the buffer is empty, or `wake` is called."""
        # A future for each who waits, so that one that is cancelled takes nobody along.
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def wake(self) -> None:
        """Wake everything that waits for a change."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def full_error(self, size_bytes: int, messages: int = 1) -> BufferFullError:
        """Return the error for messages that find no room, and remember how much they need."""
        # `room()` waits for as much, so that the same submit succeeds then.
        self._refused_bytes = max(self._refused_bytes, size_bytes)
        self._refused_messages = max(self._refused_messages, messages)
        return BufferFullError(
            f"the producer's buffer is full: {self.messages:,} messages, {self.size_bytes:,} bytes",
            hint="await producer.room() and submit again, or use send()",
        )
