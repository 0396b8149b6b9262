"""Sends the flights, many in flight at once, and waits for every receipt.

The invariant: each message has its producer's id and its sequence number, so that a duplicate can be recognized.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.errors import BufferFullError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from pytubemq import Producer, Receipt, Tube
    from pytubemq.demo.data import FlightMessage

PRODUCER_ATTRIBUTE: Final = "producer"
SEQUENCE_ATTRIBUTE: Final = "sequence"

_MAX_CHUNK: Final = 5_000
_CHUNKS: Final = 40
"""The longest time between two checks of the receipts."""
_CHUNKS_IN_FLIGHT: Final = 8


@dataclass(frozen=True, slots=True)
class Produced:
    """The result of producing: `rows` receipts in `seconds`, from the first submit to the last receipt."""

    rows: int
    seconds: float


async def produce(
    tube: Tube, topic: str, flights: Sequence[FlightMessage], on_progress: Callable[[int], None]
) -> Produced:
    """Send all flights in order; `on_progress` gets the number of receipts, now and then.

    Raises:
        TubeError: a message could not be delivered.
    """
    name = f"demo-{secrets.token_hex(4)}"
    waiting: deque[list[asyncio.Future[Receipt]]] = deque()
    received = 0
    async with tube.producer(topic) as producer:
        begun_s = time.monotonic()
        size = min(_MAX_CHUNK, max(1, len(flights) // _CHUNKS))
        for first in range(0, len(flights), size):
            if len(waiting) == _CHUNKS_IN_FLIGHT:
                received += await _receipts(waiting.popleft())
                on_progress(received)
            chunk = flights[first : first + size]
            waiting.append([await _submit(producer, name, first + n, flight) for n, flight in enumerate(chunk)])
        while waiting:
            received += await _receipts(waiting.popleft())
            on_progress(received)
        return Produced(received, time.monotonic() - begun_s)


async def _submit(producer: Producer, name: str, sequence: int, flight: FlightMessage) -> asyncio.Future[Receipt]:
    attributes = {PRODUCER_ATTRIBUTE: name, SEQUENCE_ATTRIBUTE: str(sequence)}
    while True:
        try:
            return producer.submit(flight.body, attrs=attributes, msg_type=flight.carrier, msg_time=flight.departure)
        except BufferFullError:
            await producer.room()


async def _receipts(futures: Sequence[asyncio.Future[Receipt]]) -> int:
    for future in futures:
        await future
    return len(futures)
