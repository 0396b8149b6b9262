"""Messages on their way to the journal: what one block will hold, as callers stage it.

The invariant: a staging takes only what the store has a sound partition for, and not more than one block may hold.
Nothing here touches a disk, so all of it may run on an event loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pytubemq.core.sequences import MAX_SEQUENCE
from pytubemq.errors import Code, CorruptError, MessageError, NotFoundError, ServerOverflowError
from pytubemq.model.limits import MAX_MESSAGE_BYTES, MAX_STAGED_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.core.sequences import AppendedSpan, ProducerMark, Window
    from pytubemq.storage.format.record import GroupKey, PartitionKey, Sequences, WindowKey
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.log.partition_log import PartitionLog
    from pytubemq.wire.batch.record_batch import Columns

RUN_COST_BYTES: Final = 768
"""The estimated memory of a run beside its messages."""
_INT32: Final = (1 << 31) - 1
_INT64: Final = (1 << 63) - 1

StagedMessage: TypeAlias = "tuple[int, bytes, int, int, int | None, ProducerMark | None]"
"""Number in the staging, payload, flag, filter code, checksum, who sent it."""


class StagedBatch(NamedTuple):
    """A record batch by its number in the staging."""

    number: int
    columns: Columns
    producer: ProducerMark | None


class StagedRun(NamedTuple):
    """Messages of one flag and filter code, by their number in the staging; numbered one after the other, if at all.
    The store may put them together."""

    number: int
    payloads: Sequence[bytes]
    flag: int
    key_code: int
    producer: ProducerMark | None


class AppendedRun(NamedTuple):
    """The result of a run or a record batch: spans that cover it in order, and the append time of its new messages."""

    spans: tuple[AppendedSpan, ...]
    append_time_ms: int


class Appended(NamedTuple):
    """The result of a staged message: stored (`code` 200), known already (`repeated`), or refused as `text` says."""

    message_id: int
    offset: int
    append_time_ms: int
    code: int = Code.SUCCESS
    repeated: bool = False
    text: str = ""


Outcome: TypeAlias = Appended | AppendedRun
"""The result of a message, or of several."""


@dataclass(slots=True)
class StagedPartition:
    """The messages staged for one partition, in order."""

    items: list[StagedMessage | StagedBatch | StagedRun] = field(default_factory=list)
    plain: bool = True
    """True if there are only single messages without a sequence."""


class Staging:
    """The content of one journal block; get one from `BrokerStore.staging`, hand it to `BrokerStore.prepare`."""

    def __init__(self, partitions: Mapping[PartitionKey, PartitionLog]) -> None:
        self._partitions = partitions
        self.staged: dict[PartitionKey, StagedPartition] = {}
        # By key: of several confirms of one group in a block only the last one is written.
        self.confirmed: dict[GroupKey, int] = {}
        self.count = 0
        """Messages and record batches staged."""
        self.size_bytes = 0
        """Payload bytes staged."""

    def append(
        self,
        topic: str,
        partition_id: int,
        payload: bytes,
        flag: int,
        key_code: int,
        *,
        check_sum: int | None = None,
        producer: ProducerMark | None = None,
    ) -> int:
        """Stage a message; returns its number in this staging, from 0.

        Args:
            check_sum: CRC32(payload) & 0x7FFFFFFF if the caller has just verified it, which saves computing it again.
            producer: who numbered it; a repeat is then recognised and not stored again.

        Raises:
            NotFoundError: the store has no such partition (`ensure_partition`).
            CorruptError: files of the partition are missing or damaged.
            ServerOverflowError: more is staged than one block may hold.
        """
        staged = self.staged.get((topic, partition_id)) or self._partition(topic, partition_id)
        # One message beyond the bound, so that a message of the largest size fits into a staging that is nearly full.
        if self.size_bytes > MAX_STAGED_BYTES + MAX_MESSAGE_BYTES:
            raise self._overflow()
        number = self.count
        # Checked for each sender on its own: a number too large for its field would fail the whole block later.
        if producer is not None:
            _check_mark(producer, 1)
            staged.plain = False
        # A plain tuple: a named one would double the cost of the step that is made for every single message.
        staged.items.append((number, payload, flag, key_code, check_sum, producer))
        self.count = number + 1
        self.size_bytes += len(payload)
        return number

    def append_batch(
        self, topic: str, partition_id: int, columns: Columns, *, producer: ProducerMark | None = None
    ) -> int:
        """Stage a record batch whose check was verified; returns its number in this staging. Its bytes must not change.

        Raises:
            NotFoundError, CorruptError, ServerOverflowError: as `append`.
        """
        staged = self.staged.get((topic, partition_id)) or self._partition(topic, partition_id)
        # The append path keeps to the bound itself; this guards the memory against a caller that does not.
        if self.size_bytes > MAX_STAGED_BYTES + MAX_MESSAGE_BYTES:
            raise self._overflow()
        if producer is not None:
            # Of all its messages: the last sequence has to fit into its field as well.
            _check_mark(producer, columns.count)
        number = self.count
        staged.plain = False
        # In one list with the others: messages are numbered in the order in which they were staged.
        staged.items.append(StagedBatch(number, columns, producer))
        self.count = number + 1
        # Views of the request's bytes: nothing is copied before the block is built.
        self.size_bytes += len(columns.data)
        return number

    def append_run(
        self,
        topic: str,
        partition_id: int,
        payloads: Sequence[bytes],
        flag: int,
        key_code: int,
        *,
        producer: ProducerMark | None = None,
    ) -> int:
        """Stage messages of one sender that follow each other, at a lower price for each than `append`: from
        `BATCHED_FROM` of them on they are stored as one record batch. At most MAX_RECORD_BATCH_MESSAGES.

        They have one number in the staging, which is returned, and one result: a `AppendedRun`. `producer` is that
        of the first one; the sequences of the others follow.

        Raises:
            NotFoundError, CorruptError, ServerOverflowError: as `append`.
        """
        staged = self.staged.get((topic, partition_id)) or self._partition(topic, partition_id)
        # As in `append`: the bound is checked before and not after, so a block may exceed it by one run.
        if self.size_bytes > MAX_STAGED_BYTES + MAX_MESSAGE_BYTES:
            raise self._overflow()
        if producer is not None:
            _check_mark(producer, len(payloads))
        number = self.count
        staged.plain = False
        staged.items.append(StagedRun(number, payloads, flag, key_code, producer))
        self.count = number + 1
        self.size_bytes += sum(map(len, payloads))
        return number

    def confirm(self, group: str, topic: str, partition_id: int, offset: int) -> None:
        """Stage a group's confirmed offset, or FORGOTTEN; a later one for the same partition replaces it."""
        # The later offset wins, not the larger one: a reset may go back.
        self.confirmed[group, topic, partition_id] = offset

    def _partition(self, topic: str, partition_id: int) -> StagedPartition:
        # Once for each partition and block, not for each message.
        log = self._partitions.get((topic, partition_id))
        if log is None:
            raise no_partition(topic, partition_id)
        # Refused now, rather than stored where nobody could read it.
        if log.problem is not None:
            raise damaged_partition(topic, partition_id, log.problem)
        staged = self.staged[topic, partition_id] = StagedPartition()
        return staged

    def _overflow(self) -> ServerOverflowError:
        return ServerOverflowError(
            f"{self.size_bytes} bytes wait for the journal already",
            hint="send again later",
            code=Code.SERVER_RECEIVE_OVERFLOW,
        )


@dataclass(slots=True, eq=False)
class Prepared:
    """A staging with offsets and message ids assigned, ready for the journal. Opaque to callers but for `count`,
    `appended` and `early`."""

    runs: list[RecordRange]
    confirmed: Mapping[GroupKey, int]
    appended: list[Outcome]
    last_message_id: int
    size_bytes: int
    """Bytes of entries and index, which stay in memory until applied."""
    messages: int = 0
    """Stored with this block."""
    repeats: int = 0
    """Known already, and not stored again."""
    sequences: Sequence[Sequences] = ()
    """Messages that producers numbered."""
    changed: Mapping[WindowKey, Window] = field(default_factory=dict)
    """The windows that come of it."""
    flush: bool = True
    """True if it must be on the device before it counts."""
    readable: int = 0
    """So many of the first runs are readable already: promised from memory, by this block or an abandoned one."""
    early_runs: int = 0
    """So many of the first runs may be made readable before the block is written."""
    early: frozenset[int] = frozenset()
    """Numbers of the staging that may be answered as soon as `publish_early` was called."""
    before: Prepared | None = None
    """The one under way on which this one builds: it is written only if that one was."""
    written: bool = False
    flushed: bool = False
    journal: int = 0
    journal_end: int = 0
    journal_bytes: int = 0
    """The size of its block, with head and records."""
    next_sequence: int = 0

    @property
    def count(self) -> int:
        """Messages and record batches in it."""
        return len(self.appended)

    @property
    def cost_bytes(self) -> int:
        """Its estimated size in memory."""
        return self.size_bytes + RUN_COST_BYTES * len(self.runs)

    def last_runs(self) -> dict[PartitionKey, RecordRange]:
        """Return the last run of each partition in it."""
        # Of two runs of one partition the later one wins: the first was carried over from an abandoned block.
        return {(run.topic, run.partition_id): run for run in self.runs}


def _check_mark(mark: ProducerMark, messages: int) -> None:
    """Refuse numbers beyond those that a producer can send (int64, int32, int64)."""
    producer_id, epoch, sequence = mark
    if not (0 < producer_id <= _INT64 and 0 <= epoch <= _INT32 and 0 <= sequence <= MAX_SEQUENCE - messages + 1):
        raise MessageError(
            f"producer {producer_id}, epoch {epoch}: {messages} messages from sequence {sequence} on cannot be stored",
            hint="number messages from 0 on, as a new producer does",
            code=Code.BAD_REQUEST,
        )


def no_partition(topic: str, partition_id: int) -> NotFoundError:
    """Return the error for a partition that the store does not know."""
    return NotFoundError(
        f"no partition {partition_id} of topic {topic!r} on this Broker",
        hint="create the topic at the Master, or ask it which Broker has the partition",
        code=Code.NOT_FOUND,
    )


def damaged_partition(topic: str, partition_id: int, problem: str) -> CorruptError:
    """Return the error for a partition whose files cannot be used."""
    return CorruptError(
        f"partition {partition_id} of topic {topic!r} cannot be used: {problem}",
        hint="stop the Broker and run `pytubemq store repair` on its directory; other partitions continue",
        code=Code.INTERNAL_SERVER_ERROR,
    )
