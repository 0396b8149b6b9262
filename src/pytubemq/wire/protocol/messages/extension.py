"""Messages of the extension methods: ours alone, only sent to a peer that has shown the capability.
Method 100 and capability 1 << 0 are reserved: an early version sent batches with them.

Names and numbers are the protocol's own (proto2, no package); extension fields are named in `wire.protocol.extensions`.
"""

from __future__ import annotations

from pytubemq.model.limits import (
    MAX_FETCH_MESSAGES,
    MAX_RESET_RECORDS,
    MAX_WIRE_FILTERS,
    MAX_WIRE_GROUPS,
    MAX_WIRE_POSITIONS,
    MAX_WIRE_RECORD_BATCHES,
    MAX_WIRE_RESETS,
    MAX_WIRE_SPANS,
    MAX_WIRE_SUBSCRIPTIONS,
)
from pytubemq.wire.protobuf.schema import BOOL, BYTES, I32, I64, STR, message, optional, repeated, required
from pytubemq.wire.protocol.extensions import ExtensionField
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo, TransferedMessage


@message
class PackEntry:
    """A record batch for one partition: `data` holds its columns (`wire.batch`), `first_sequence` its first
    message's."""

    partition_id: int = required(1, I32)
    data: bytes = required(2, BYTES)
    # One for all: the sequences of a batch follow each other, so a gap ends it.
    first_sequence: int | None = optional(3, I64, default=None)


@message
class SendPacksRequestP2B:
    """Record batches of one topic, for one Broker; each message of each is accepted or refused individually.

    `refusals_seen` keeps a producer's order when several batches are in flight: how many of its batches on this
    connection it knows to have been refused for now (419, 503, or timed out). One that is behind is refused, 419.
    """

    client_id: str = required(1, STR)
    topic_name: str = required(2, STR)
    sent_addr: int = required(3, I32)
    packs: tuple[PackEntry, ...] = repeated(4, PackEntry, most=MAX_WIRE_RECORD_BATCHES, default=())
    producer_id: int | None = optional(5, I64, default=None)
    producer_epoch: int | None = optional(6, I32, default=None)
    auth_info: AuthorizedInfo | None = optional(7, AuthorizedInfo, default=None)
    # A batch without it is not checked.
    refusals_seen: int | None = optional(8, I64, default=None)


@message
class PackSpan:
    """The result of the next `count` messages of a record batch: all accepted or all refused.

    Accepted (200): offsets and ids count up from the first one's; `repeated` says that they were there before, and both
    are -1 if that was too long ago to be known.
    """

    count: int = required(1, I32)
    err_code: int = required(2, I32)
    # Required, with -1 for none: a client reads all spans alike.
    first_offset: int = required(3, I64)
    first_message_id: int = required(4, I64)
    repeated: bool | None = optional(5, BOOL, default=None)
    err_msg: str | None = optional(6, STR, default=None)


@message
class PackResult:
    """The spans of one record batch, in order; together they have as many messages as it."""

    spans: tuple[PackSpan, ...] = repeated(1, PackSpan, most=MAX_WIRE_SPANS, default=())


@message
class SendPacksResponseB2P:
    """Results by position; when all record batches share one result, `results` may be empty and the code speaks for
    every message.

    `err_msg` is about the first refused message.
    """

    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    # By position, since two batches of a request may be for one partition.
    results: tuple[PackResult, ...] = repeated(4, PackResult, most=MAX_WIRE_RECORD_BATCHES, default=())
    append_time: int | None = optional(5, I64, default=None)


@message
class ReadRangeRequestC2B:
    """A read of a partition from `offset` on, below `end_offset` if given, without a group and without a registration.

    With `filters` only messages of these types are looked for, as in a consumer's registration: by hash, and a batch of
    mixed types comes whole, so the reader looks again. `check` has the Broker check each record, also where its
    settings leave that out: for a reader that could not read the response before.
    """

    client_id: str = required(1, STR)
    topic_name: str = required(2, STR)
    partition_id: int = required(3, I32)
    offset: int = required(4, I64)
    end_offset: int | None = optional(5, I64, default=None)
    max_messages: int | None = optional(6, I32, default=None)
    max_bytes: int | None = optional(7, I32, default=None)
    max_wait_ms: int | None = optional(8, I32, default=None)
    auth_info: AuthorizedInfo | None = optional(9, AuthorizedInfo, default=None)
    # Came later (RANGE_FILTERS), so it has the next free number.
    filters: tuple[str, ...] = repeated(10, STR, most=MAX_WIRE_FILTERS, default=())
    check: bool | None = optional(11, BOOL, default=None)


@message
class ReadRangeResponseB2C:
    """The messages of a range; `messages` has the number it has in `GetMessageResponseB2C`, so the same stored bytes
    serve both.

    301 when `offset` is below `min_offset`, 404 when nothing is there (yet); the three offsets are set with 200,
    301 and 404.
    """

    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str | None = optional(3, STR, default=None)
    messages: tuple[TransferedMessage, ...] = repeated(4, TransferedMessage, most=MAX_FETCH_MESSAGES, default=())
    next_offset: int | None = optional(5, I64, default=None)
    # In each response, so a reader that retention overtakes learns it without another request.
    min_offset: int | None = optional(6, I64, default=None)
    max_offset: int | None = optional(7, I64, default=None)
    packs: tuple[bytes, ...] = repeated(ExtensionField.PACKS, BYTES, most=MAX_FETCH_MESSAGES, default=())


@message
class TopicPartition:
    """A partition of the Broker that is asked."""

    topic_name: str = required(1, STR)
    partition_id: int = required(2, I32)


@message
class PartitionOffsetsRequest:
    """Ends of the given partitions, of all when none is given; with groups, their positions too.

    `group_names` empty and `all_groups` unset: no positions. With `not_before_ms` every partition also has
    (`PartitionEnds.offset_by_time`) the offset of the first message appended at that time or later.
    """

    client_id: str = required(1, STR)
    partitions: tuple[TopicPartition, ...] = repeated(2, TopicPartition, most=MAX_WIRE_SUBSCRIPTIONS, default=())
    group_names: tuple[str, ...] = repeated(3, STR, most=MAX_WIRE_GROUPS, default=())
    all_groups: bool | None = optional(4, BOOL, default=None)
    not_before_ms: int | None = optional(5, I64, default=None)
    auth_info: AuthorizedInfo | None = optional(6, AuthorizedInfo, default=None)


@message
class PartitionEnds:
    """The ends of a partition: `min_offset` is the first readable one, `max_offset` the one the next message gets; what
    is between them takes `size_bytes`."""

    topic_name: str = required(1, STR)
    partition_id: int = required(2, I32)
    min_offset: int = required(3, I64)
    max_offset: int = required(4, I64)
    offset_by_time: int | None = optional(5, I64, default=None)
    # From Brokers that show RANGE_FILTERS; earlier ones leave it out.
    size_bytes: int | None = optional(6, I64, default=None)


@message
class GroupPosition:
    """The confirmed offset of a group in a partition, and the member that consumes it now."""

    group_name: str = required(1, STR)
    topic_name: str = required(2, STR)
    partition_id: int = required(3, I32)
    confirmed_offset: int = required(4, I64)
    consumer_id: str | None = optional(5, STR, default=None)


@message
class PartitionOffsetsResponse:
    """The response to `PartitionOffsetsRequest`; unknown partitions are left out."""

    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    partitions: tuple[PartitionEnds, ...] = repeated(4, PartitionEnds, most=MAX_WIRE_POSITIONS, default=())
    groups: tuple[GroupPosition, ...] = repeated(5, GroupPosition, most=MAX_WIRE_POSITIONS, default=())


@message
class OffsetReset:
    """A move of a group's position in one partition: to a given offset, or to what `to` names.

    `to`: "earliest", "latest" or "time" (then `time_ms` counts: the first message appended then or later). `asked`: how
    it was named where that says more, as in "-10m" or "number:5"; for the history.
    """

    topic_name: str = required(1, STR)
    partition_id: int = required(2, I32)
    offset: int | None = optional(3, I64, default=None)
    # Text and not an enum: a Broker refuses a word that it does not know, where an unknown number would read as absent.
    to: str | None = optional(4, STR, default=None)
    time_ms: int | None = optional(5, I64, default=None)
    asked: str | None = optional(6, STR, default=None)


@message
class ResetOffsetsRequest:
    """A move of a group's confirmed offsets; `dry_run` only reports what would happen."""

    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    # Kept in the history of resets.
    user: str = required(3, STR)
    resets: tuple[OffsetReset, ...] = repeated(4, OffsetReset, most=MAX_WIRE_RESETS, default=())
    dry_run: bool | None = optional(5, BOOL, default=None)
    auth_info: AuthorizedInfo | None = optional(6, AuthorizedInfo, default=None)


@message
class ResetResult:
    """The result of one reset, by position; `old_offset` is absent if the group had none there."""

    err_code: int = required(1, I32)
    err_msg: str | None = optional(2, STR, default=None)
    old_offset: int | None = optional(3, I64, default=None)
    new_offset: int | None = optional(4, I64, default=None)


@message
class ResetOffsetsResponse:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    results: tuple[ResetResult, ...] = repeated(4, ResetResult, most=MAX_WIRE_RESETS, default=())


@message
class ResetHistoryRequest:
    """The resets that this Broker remembers, newest first; of one group, or of all."""

    client_id: str = required(1, STR)
    group_name: str | None = optional(2, STR, default=None)
    max_records: int | None = optional(3, I32, default=None)
    auth_info: AuthorizedInfo | None = optional(4, AuthorizedInfo, default=None)


@message
class ResetRecord:
    """One reset that was made; `asked` in words: "earliest", "time 2026-01-01T00:00:00Z", "offset 28"."""

    time_ms: int = required(1, I64)
    user: str = required(2, STR)
    group_name: str = required(3, STR)
    topic_name: str = required(4, STR)
    partition_id: int = required(5, I32)
    asked: str = required(6, STR)
    new_offset: int = required(7, I64)
    old_offset: int | None = optional(8, I64, default=None)


@message
class ResetHistoryResponse:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    records: tuple[ResetRecord, ...] = repeated(4, ResetRecord, most=MAX_RESET_RECORDS, default=())
