"""`Reader` without `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client.option_arguments import takes
from pytubemq.client.options import ReadOptions
from pytubemq.client.reader import reader as readers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from pytubemq.client.received import batch as batches_of
    from pytubemq.model.ids import Partition
    from pytubemq.net.iothread import IoThread


class Reader:
    """Reads a range of one partition. Made by `Tube.reader`; use it with `with`."""

    def __init__(self, io: IoThread, reader: readers.Reader) -> None:
        self._io = io
        self._reader = reader

    def __enter__(self) -> Reader:
        """Find the Broker; see `pytubemq.Reader`."""
        self._io.run(self._reader.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it. Idempotent."""
        if not self._io.closed:
            self._io.run(self._reader.close())

    @property
    def partition(self) -> Partition:
        """The topic to read."""
        return self._reader.partition

    @property
    def position(self) -> int | None:
        """The offset the next batch begins at."""
        return self._reader.position

    @property
    def end(self) -> int | None:
        """The end of the range; None if it goes on with the partition."""
        return self._reader.end

    @takes(ReadOptions, like=readers.Reader.batches)
    def batches(self, options: ReadOptions) -> Iterator[batches_of.ReadBatch]:
        """Iterate over the range in batches; arguments as in `pytubemq.Reader.batches`."""
        return self._iterate(readers.ReadBatches(self._reader, options))

    def _iterate(self, inner: readers.ReadBatches) -> Iterator[batches_of.ReadBatch]:
        async def following() -> batches_of.ReadBatch | None:
            return await anext(inner, None)

        try:
            while (batch := self._io.run(following())) is not None:
                yield batch
        finally:
            if not self._io.closed:
                self._io.run(inner.aclose())
