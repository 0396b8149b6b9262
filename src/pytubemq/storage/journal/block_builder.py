"""Block builder: numbers staged messages and builds the bytes that every later step reuses.

The invariant: a record's bytes are built once, here; journal, log, index and fetch responses carry the same bytes. A
batch costs the same whatever the number of its messages. Nothing is changed but memory of the block's own, so a block
can be abandoned at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from pytubemq.core.sequences import NOWHERE, AppendedSpan, ProducerMark, SequenceVerdict, StoredLocation, Verdict
from pytubemq.errors import Code
from pytubemq.model.durability import Durability
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.format.entry import EntryEncoder
from pytubemq.storage.format.index import RecordKind, encode_index_entry
from pytubemq.storage.format.record import Sequences
from pytubemq.storage.format.record_range import RecordRange
from pytubemq.storage.format.single_messages import build_singles
from pytubemq.storage.journal.staging import Appended, AppendedRun, Prepared, StagedBatch, StagedRun
from pytubemq.storage.journal.windows import WindowChanges
from pytubemq.wire.batch.record_batch import RecordBatchHead, encode_columns, read_columns, stored_batch_head
from pytubemq.wire.protocol.extensions import FENCED_EPOCH, FORGOTTEN_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.journal.staging import Outcome, StagedMessage, StagedPartition, Staging
    from pytubemq.storage.journal.windows import Windows
    from pytubemq.storage.log.partition_log import PartitionLog
    from pytubemq.wire.batch.record_batch import Columns

_new = tuple.__new__
"""Makes a named tuple in half the time of calling its class, which counts when done for every message."""
_NOBODY: Final = ProducerMark(0, 0, 0)
_NO_CODE: Final = -1
_SUCCESS: Final = int(Code.SUCCESS)
_CRC_BYTES: Final = 4
BATCHED_FROM: Final = 8
"""So many messages of one sender that follow each other are stored as one batch, which costs a fifth for each; for
consumers that know no batches they are taken apart again."""
MOST_AHEAD_MS: Final = 600_000
"""Milliseconds by which the newest message's time may be ahead of the clock and still be used for the next one."""


class Carried(NamedTuple):
    """Runs that were promised from memory by a block that was abandoned, and what producers numbered in them."""

    runs: Sequence[tuple[PartitionLog, RecordRange]] = ()
    sequences: Sequence[Sequences] = ()


def build(
    staging: Staging,
    partitions: Mapping[PartitionKey, PartitionLog],
    windows: Windows,
    carried: Carried,
    durability_of: Callable[[str], Durability],
    *,
    before: Prepared | None = None,
    last_message_id: int,
    now_ms: int,
) -> Prepared:
    """Number the staged messages and build their bytes; duplicates get the numbers they have. They follow on what is
    published, or on `before`, which will be."""
    # By number in the staging: partitions are built one after the other, and callers look up their own.
    appended: list[Outcome] = [_UNSET] * staging.count
    # The block under way is not published yet, so ends and windows are taken from it where it changes them.
    ahead: Mapping[PartitionKey, RecordRange] = {}
    noted = WindowChanges(windows)
    if before is not None:
        ahead, noted = before.last_runs(), WindowChanges(windows, before.changed)
    # These are stored by this block, so a duplicate that comes with it must find them in the windows.
    for item in carried.sequences:
        noted.add(item)
    # The carried runs come first: they are readable already, and `Prepared.readable` counts from the front.
    early_runs, runs = [run for _, run in carried.runs], list[RecordRange]()
    early: list[int] = []
    # Asked once for each topic of the block, not for each message.
    levels = {topic: durability_of(topic) for topic in {topic for topic, _ in staging.staged}}
    message_id, messages, repeats = last_message_id, 0, 0
    for key, staged in staging.staged.items():
        builder = _PartitionBuilder(key, ahead.get(key) or partitions[key], noted, message_id, now_ms)
        builder.build(staged, appended)
        # Ids go on from partition to partition: they are unique in the store.
        message_id = builder.message_id
        repeats += builder.repeats
        # Runs that may be read at once come first in the block, so that `early_runs` is a count and no list.
        from_memory = levels[key[0]] is Durability.MEMORY
        if builder.count:
            messages += builder.count
            (early_runs if from_memory else runs).append(builder.run())
        if from_memory:
            early += (item[0] for item in staged.items)
    # A position is as durable as its topic says, so a confirm alone can make the block wait for the device.
    confirming = {topic for _, topic, _ in staging.confirmed}
    levels |= {topic: durability_of(topic) for topic in confirming - levels.keys()}
    all_runs = early_runs + runs
    return Prepared(
        all_runs,
        dict(staging.confirmed),
        appended,
        message_id,
        sum(run.size_bytes for run in all_runs),
        messages=messages,
        repeats=repeats,
        sequences=noted.sequences,
        changed=noted.changed,
        flush=Durability.DISK in levels.values(),
        readable=len(carried.runs),
        # While a block that was abandoned is still owed, nothing more is promised: memory must not fill up with it.
        early_runs=len(carried.runs) if carried.runs else len(early_runs),
        early=frozenset() if carried.runs else frozenset(early),
    )


_UNSET: Final = Appended(0, NOWHERE, 0)


class _PartitionBuilder:
    """The builder of the records of one partition."""

    def __init__(
        self, key: PartitionKey, last: PartitionLog | RecordRange, noted: WindowChanges, message_id: int, now_ms: int
    ) -> None:
        """Continue after `last`."""
        self._topic, self._partition_id = key
        self._noted = noted
        self._base_ordinal = self._ordinal = last.end_ordinal
        self._base_position = self._position = last.end_position
        # Times do not go back: a partition is searched by them. But where the clock was far ahead once, its times
        # must not be everybody's until it gets there: nothing would ever be too old.
        stays = last.last_time_ms - now_ms <= MOST_AHEAD_MS
        self._time_ms = max(now_ms, last.last_time_ms) if stays else now_ms
        self._entries: list[bytes | memoryview] = []
        self._index: list[bytes] = []
        self._pending: Sequences | None = None
        """Messages that one producer numbered one after the other, stored and not yet noted."""
        self._is_newest: bool | None = None
        """True if nothing after what is pending was known before; None as long as nobody asked."""
        self.message_id = message_id
        self.repeats = 0
        """Messages that were known and are not stored again."""

    @property
    def count(self) -> int:
        """Messages stored."""
        return self._ordinal - self._base_ordinal

    def run(self) -> RecordRange:
        """Return everything that was built."""
        # Joined once: journal, log and fetch responses take these bytes as they are.
        index, entries = b"".join(self._index), b"".join(self._entries)
        return RecordRange(
            self._topic, self._partition_id, self._base_ordinal, self._base_position, self.count, index, entries
        )

    def build(self, staged: StagedPartition, appended: list[Outcome]) -> None:
        """Take all that is staged, and say what became of each."""
        # Producers that number nothing, as the original's, need no window, and no look at each item.
        if staged.plain:
            self._store_messages(staged.items, appended, None)  # type: ignore[arg-type]  # plain: only messages
            return
        alike: list[StagedMessage] = []
        """Messages without a number, or numbered one after the other by one producer."""
        for item in staged.items:
            if isinstance(item, StagedBatch):
                self._add_messages(alike, appended)
                alike = []
                appended[item.number] = AppendedRun(self._add_batch(item.columns, item.producer), self._time_ms)
                continue
            if isinstance(item, StagedRun):
                self._add_messages(alike, appended)
                alike = []
                appended[item.number] = AppendedRun(self._add_run(item), self._time_ms)
                continue
            if alike and not _follows(alike[-1][-1], item[-1]):
                self._add_messages(alike, appended)
                alike = []
            alike.append(item)
        self._add_messages(alike, appended)
        self._note_pending()

    def _add_messages(self, items: Sequence[StagedMessage], appended: list[Outcome]) -> None:
        if not items:
            return
        # All of them have consecutive sequences, so the first one's mark stands for them.
        mark = items[0][-1]
        if mark is None:
            self._store_messages(items, appended, None)
            return
        at = 0
        for judged in self._judge(mark, len(items)):
            taken = items[at : at + judged.messages]
            here = mark._replace(sequence=mark.sequence + at)
            if judged.verdict is Verdict.NEW:
                self._record_stored(here, judged.messages)
                self._store_messages(taken, appended, here)
            else:
                self._answer_messages(taken, appended, judged, here)
            at += judged.messages

    def _answer_messages(
        self, items: Sequence[StagedMessage], appended: list[Outcome], judged: SequenceVerdict, mark: ProducerMark
    ) -> None:
        """Record the outcome of messages that are not stored: their offset if they are duplicates, or why they are
        refused."""
        code, offset, text = self._answer(judged, mark)
        repeated = judged.verdict is Verdict.REPEATED
        for behind, item in enumerate(items):
            # It is refused, or its window still knows the sequence and no longer the place.
            if offset == NOWHERE:
                appended[item[0]] = Appended(NOWHERE, NOWHERE, self._time_ms, code, repeated, text)
            else:
                message_id, at = judged.message_id + behind, offset + behind * OFFSET_UNIT
                appended[item[0]] = Appended(message_id, at, self._time_ms, code, repeated, text)

    def _store_messages(
        self, items: Sequence[StagedMessage], appended: list[Outcome], mark: ProducerMark | None
    ) -> None:
        # Locals instead of attributes, since the loop runs for every single message.
        time_ms, message_id, ordinal, position = self._time_ms, self.message_id, self._ordinal, self._position
        add_entry, add_index = self._entries.append, self._index.append
        # Time and producer are the same for all of these, so they are encoded once.
        encoder = EntryEncoder(time_ms) if mark is None else EntryEncoder(time_ms, mark.producer_id, mark.epoch)
        encode, sequence = encoder.encode, 0 if mark is None else mark.sequence
        for number, payload, flag, key_code, check_sum, _ in items:
            message_id += 1
            if check_sum is None:  # the protocol's checksum of a single message: 31 bits of a CRC-32
                check_sum = crc32(payload) & 0x7FFFFFFF
            offset = ordinal * OFFSET_UNIT
            entry = encode(message_id, payload, flag, offset, check_sum, sequence)
            size = len(entry)
            add_entry(entry)
            add_index(encode_index_entry(position, ordinal, time_ms, size, 1, key_code, crc32(entry), 0))
            # Positions in the tuple, not names: this is done for every message, see `_new`.
            appended[number] = _new(Appended, (message_id, offset, time_ms, 200, False, ""))
            ordinal += 1
            position += size
            sequence += 1
        self.message_id, self._ordinal, self._position = message_id, ordinal, position

    def _add_run(self, run: StagedRun) -> tuple[AppendedSpan, ...]:
        def store(start: int, stop: int, mark: ProducerMark | None) -> AppendedSpan:
            payloads = run.payloads if stop - start == len(run.payloads) else run.payloads[start:stop]
            # A batch's head and columns cost more than they save for a few messages.
            if len(payloads) < BATCHED_FROM:
                return self._store_singles(payloads, run.flag, run.key_code, mark)
            data = encode_columns(payloads, run.flag, run.key_code)
            return self._store_batch(data, len(payloads), run.key_code, mark or _NOBODY)

        return self._add_numbered(run.producer, len(run.payloads), store)

    def _add_batch(self, columns: Columns, mark: ProducerMark | None) -> tuple[AppendedSpan, ...]:
        def store(start: int, stop: int, mark: ProducerMark | None) -> AppendedSpan:
            part = columns
            if stop - start != columns.count:
                # A part has columns and a check of its own; what was proven on arrival is not proven again.
                part = read_columns(columns.part(start, stop), check=False)
            code = None if part.mixed else part.key_code
            return self._store_batch(part.data, part.count, code, mark or _NOBODY)

        return self._add_numbered(mark, columns.count, store)

    def _add_numbered(
        self, mark: ProducerMark | None, messages: int, store: Callable[[int, int, ProducerMark | None], AppendedSpan]
    ) -> tuple[AppendedSpan, ...]:
        """Store those of so many messages that are new, by `store`, and answer for the others."""
        if mark is None:
            return (store(0, messages, None),)
        verdicts = self._judge(mark, messages)
        # The usual case: a whole batch that is new. No list of spans, no cut.
        if len(verdicts) == 1 and verdicts[0].verdict is Verdict.NEW:
            self._record_stored(mark, messages)
            return (store(0, messages, mark),)
        spans: list[AppendedSpan] = []
        at = 0
        for judged in verdicts:
            here = mark._replace(sequence=mark.sequence + at)
            if judged.verdict is Verdict.NEW:
                self._record_stored(here, judged.messages)
                spans.append(store(at, at + judged.messages, here))
            else:
                code, offset, text = self._answer(judged, here)
                repeated = judged.verdict is Verdict.REPEATED
                spans.append(AppendedSpan(judged.messages, code, offset, judged.message_id, repeated, text))
            at += judged.messages
        return tuple(spans)

    def _store_singles(
        self, payloads: Sequence[bytes], flag: int, key_code: int, mark: ProducerMark | None
    ) -> AppendedSpan:
        offset, first_id, count = self._ordinal * OFFSET_UNIT, self.message_id + 1, len(payloads)
        # Too few for a record batch, and yet cheaper together: what they share is encoded once.
        built = build_singles(
            payloads,
            flag,
            key_code,
            message_id=first_id,
            ordinal=self._ordinal,
            position=self._position,
            time_ms=self._time_ms,
            mark=mark,
        )
        self._entries += built.entries
        self._index += built.slots
        self.message_id += count
        self._ordinal += count
        self._position += built.size_bytes
        return AppendedSpan(count, Code.SUCCESS, offset, first_id)

    def _store_batch(
        self, data: bytes | memoryview, count: int, key_code: int | None, mark: ProducerMark
    ) -> AppendedSpan:
        """Store columns; `key_code` is None where messages have different ones."""
        offset, first_id, time_ms = self._ordinal * OFFSET_UNIT, self.message_id + 1, self._time_ms
        fields = (offset, first_id, time_ms, mark.producer_id, mark.sequence, mark.epoch)
        # Whoever reads the log after the journal is gone learns the producer's numbers from this head.
        head = stored_batch_head(_new(RecordBatchHead, fields), len(data))
        size = len(head) + len(data)
        # The index entry's check covers head and the columns' own check; that one covers the rest. So storing a batch
        # costs the same whatever is in it.
        crc = crc32(data[:_CRC_BYTES], crc32(head))
        kind = RecordKind.MIXED_PACK if key_code is None else RecordKind.PACK
        code = _NO_CODE if key_code is None else key_code
        # Not joined here: `run` joins all parts of the partition at once.
        self._entries += (head, data)
        self._index.append(encode_index_entry(self._position, self._ordinal, time_ms, size, count, code, crc, kind))
        self.message_id += count
        self._ordinal += count
        self._position += size
        return _new(AppendedSpan, (count, _SUCCESS, offset, first_id, False, ""))

    # --- what producers number ---------------------------------------------------------------------------------------

    def _goes_on(self, mark: ProducerMark) -> bool:
        """True if it directly follows the producer's last message, so is new without a look at the window."""
        pending = self._pending
        if (
            pending is None
            or pending.producer_id != mark.producer_id
            or pending.epoch != mark.epoch
            or pending.place.sequence + pending.place.messages != mark.sequence
        ):
            return False
        if self._is_newest is None:
            window = self._noted.window((self._topic, self._partition_id, mark.producer_id))
            first = pending.place.sequence
            # Asked once for many messages: from then on each message that follows on is new without a search in the
            # window.
            self._is_newest = window is None or window.epoch < mark.epoch or window.runs[-1][1] <= first
        return self._is_newest

    def _judge(self, mark: ProducerMark, messages: int) -> list[SequenceVerdict]:
        if self._goes_on(mark):
            return [SequenceVerdict(messages, Verdict.NEW)]
        self._note_pending()
        # The window has to know of everything stored so far before it judges.
        return self._noted.judge(self._topic, self._partition_id, mark, messages)

    def _record_stored(self, mark: ProducerMark, messages: int) -> None:
        """Record that messages from `mark` on are stored next."""
        pending = self._pending
        if pending is not None:
            place = pending.place
            behind = self._ordinal - place.ordinal
            # One place can stand for both only if nobody else's messages were stored between them.
            if (
                pending.producer_id == mark.producer_id
                and pending.epoch == mark.epoch
                and place.sequence + place.messages == mark.sequence
                and behind == place.messages
            ):
                place = StoredLocation(place.sequence, place.messages + messages, place.ordinal, place.message_id)
                self._pending = pending._replace(place=place)
                return
            self._note_pending()
        place = _new(StoredLocation, (mark.sequence, messages, self._ordinal, self.message_id + 1))
        self._pending = Sequences(self._topic, self._partition_id, mark.producer_id, mark.epoch, place)
        self._is_newest = None

    def _note_pending(self) -> None:
        if self._pending is not None:
            self._noted.add(self._pending)
            self._pending = None

    def _answer(self, judged: SequenceVerdict, mark: ProducerMark) -> tuple[int, int, str]:
        """Count messages that are not stored if they are duplicates; return the code, offset and text for them."""
        if judged.verdict is Verdict.REPEATED:
            self.repeats += judged.messages
            ordinal = judged.ordinal
            return Code.SUCCESS, NOWHERE if ordinal == NOWHERE else ordinal * OFFSET_UNIT, ""
        window = self._noted.window((self._topic, self._partition_id, mark.producer_id))
        # The producer began anew under a higher epoch; what its former life still sends must not be stored behind that.
        if judged.verdict is Verdict.FENCED:
            newer = window.epoch if window is not None else "a newer one"
            return (
                Code.FORBIDDEN,
                NOWHERE,
                f"{FENCED_EPOCH}: producer {mark.producer_id} sends with epoch {mark.epoch}, and partition "
                f"{self._topic}:{self._partition_id} has seen its epoch {newer}; stop this one",
            )
        # Below the floor a duplicate looks like a message that never came, so it is refused and never guessed.
        floor = window.floor if window is not None else 0
        return (
            Code.BAD_REQUEST,
            NOWHERE,
            f"{FORGOTTEN_SEQUENCE}: {mark.sequence} of producer {mark.producer_id} is below {floor}, the first one "
            f"that partition {self._topic}:{self._partition_id} still knows",
        )


def _follows(last: ProducerMark | None, mark: ProducerMark | None) -> bool:
    """True if a message is to be treated together with the one before it."""
    if last is None or mark is None:
        return last is mark
    return mark.sequence == last.sequence + 1 and mark[:2] == last[:2]
