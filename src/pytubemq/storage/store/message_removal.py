"""Removal of messages from a store: whole topics, and what retention keeps no longer.

The invariant: what goes is forgotten by a checkpoint first and its files are removed afterwards, so that no start
brings it back; files that could not be removed are tried again with the next removal.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from pytubemq.errors import StorageError
from pytubemq.model.offset import to_offset
from pytubemq.observe.trace_events import PARTITION
from pytubemq.storage.disk.paths import topic_directory
from pytubemq.storage.log.expired_segments import Surplus, choose
from pytubemq.storage.log.removal import remove_files, remove_topic
from pytubemq.storage.log.retention import Retained

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.journal.store_state import StoreState
    from pytubemq.storage.log.partition_log import PartitionLog
    from pytubemq.storage.log.segment import Segment
    from pytubemq.storage.log.segment_reader import SegmentReader
    from pytubemq.storage.store.applier import Applier
    from pytubemq.storage.store.block_writer import BlockWriter
    from pytubemq.storage.store.condition import Condition


class MessageRemoval:
    """The removing half of a store; for a background thread. Blocks."""

    def __init__(
        self, state: StoreState, condition: Condition, applier: Applier, writer: BlockWriter, reader: SegmentReader
    ) -> None:
        self._state = state
        self._condition = condition
        self._applier = applier
        self._writer = writer
        self._reader = reader
        self.removing = Lock()
        """Held while files are removed: so that none goes for a topic of which the next one of its name has it by now,
        and nobody works on a store that is closed."""
        self._unneeded: list[Path] = []
        """Files that nobody needs any more and that could not be removed yet."""

    def drop(self, topic: str) -> None:
        """See `BrokerStore.drop`."""
        state = self._state
        # Refuses a name that would lead out of the store, before anything is done.
        topic_directory(state.root, topic)
        with self.removing:
            self._condition.check()
            # Such a block would come behind the checkpoint, and a start would make the topic again from it.
            if self._writer.is_under_way(topic):
                raise StorageError(
                    f"topic {topic} cannot be removed: messages of it are on their way to the journal",
                    hint="it is retried automatically once they are written",
                )
            self._condition.run(lambda: self._applier.drop(topic))
            state.lost_ranges.forget(topic)
            # One of the same name may come, and have files of the same names.
            self._unneeded = [path for path in self._unneeded if path.parent.parent.name != topic]
            try:
                remove_topic(state.files, state.root, topic)
            except OSError as error:  # not a reason to stop writing: nobody needs these files any more
                raise StorageError(
                    f"files of topic {topic} cannot be removed: {error.strerror or error}",
                    hint="it is retried automatically, and at the next start",
                ) from error

    def retain(self, now_ms: int, *, ahead_s: float | None) -> Retained:
        """See `BrokerStore.retain`."""
        state = self._state
        segments = messages = size = 0
        with self.removing:
            self._condition.check()
            found = Surplus({}, {})

            # Called in the applier's turn: no segment may begin or end between the choice and the checkpoint.
            def chosen() -> dict[PartitionKey, int]:
                nonlocal found
                found = choose(state.partitions, self._reader, state.retention, now_ms, ahead_s=ahead_s)
                return found.counts

            for log, gone in self._condition.run(lambda: self._applier.retain(chosen)):
                segments += len(gone)
                messages += log.first_ordinal - gone[0].base_ordinal
                size += log.first_position - gone[0].base_position
                self._forget(log, gone)
            # With what earlier passes could not remove; a topic's own pass need not come again for it.
            self._unneeded = remove_files(state.files, self._unneeded)
        return Retained(segments, messages, size, found.expiring)

    def _forget(self, log: PartitionLog, gone: Sequence[Segment]) -> None:
        """Forget what is known of segments that a partition no longer has."""
        self._state.lost_ranges.forget_before(log.topic, log.partition_id, log.first_ordinal)
        PARTITION.record(
            "retained", topic=log.topic, partition=log.partition_id, offset=to_offset(log.first_ordinal),
            segments=len(gone),
        )  # fmt: skip
        for segment in gone:
            self._reader.forget(segment)
            self._unneeded += (segment.log_path, segment.index_path)
