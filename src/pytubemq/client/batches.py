"""The iteration over a consumer's batches.

The invariant: it keeps nothing itself, so it may be left and taken up again, and a cancelled wait loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytubemq.client.batch import Batch
    from pytubemq.client.keeper import PartitionKeeper
    from pytubemq.client.options import FetchOptions


class Batches:
    """Iterates over a consumer's batches, until none has come for `idle_timeout_s` or the consumer is closed."""

    def __init__(self, consumer: PartitionKeeper, options: FetchOptions) -> None:
        self._consumer = consumer
        self._options = options

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> Batch:
        batch = await self._consumer.next_batch(timeout_s=self._options.idle_timeout_s)
        if batch is None:
            raise StopAsyncIteration
        return batch
