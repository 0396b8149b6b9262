"""Messages of the extension methods: ours alone, only sent to a peer that has shown the capability.

Names and numbers are the protocol's own (proto2, no package); extension fields are named in `wire.extensions`.
"""

from __future__ import annotations

from pytubemq.wire.messages.broker import AuthorizedInfo, TransferedMessage
from pytubemq.wire.schema import BOOL, BYTES, I32, I64, STR, message, optional, repeated, required


@message
class BatchEntry:
    """One message of a batch; `data` is the payload as in `SendMessageRequestP2B.data`."""

    partition_id: int = required(1, I32)
    data: bytes = required(2, BYTES)
    flag: int = required(3, I32)
    msg_type: str | None = optional(4, STR, default=None)
    msg_time: str | None = optional(5, STR, default=None)
    sequence: int | None = optional(6, I64, default=None)


@message
class SendBatchRequestP2B:
    """Many messages of one topic, for one Broker; each is accepted or refused by itself.

    `refusals_seen` keeps a producer's order when several batches are under way: how many of its batches on this
    connection it knows not to have been taken for now (419, 503, or out of time). One that is behind is refused, 419.
    """

    client_id: str = required(1, STR)
    topic_name: str = required(2, STR)
    sent_addr: int = required(3, I32)
    entries: tuple[BatchEntry, ...] = repeated(4, BatchEntry, default=())
    producer_id: int | None = optional(5, I64, default=None)
    producer_epoch: int | None = optional(6, I32, default=None)
    auth_info: AuthorizedInfo | None = optional(7, AuthorizedInfo, default=None)
    refusals_seen: int | None = optional(8, I64, default=None)


@message
class SendBatchResponseB2P:
    """Answers by position: entry i got `err_codes[i]`, `message_ids[i]`, `offsets[i]` (id and offset -1 if refused).

    When the whole batch shares one fate the three lists may be empty and `success`, `err_code`, `err_msg` speak for
    every entry. `err_msg` tells about the first refused entry.
    """

    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    err_codes: tuple[int, ...] = repeated(4, I32, default=(), packed=True)
    message_ids: tuple[int, ...] = repeated(5, I64, default=(), packed=True)
    offsets: tuple[int, ...] = repeated(6, I64, default=(), packed=True)
    append_time: int | None = optional(7, I64, default=None)


@message
class ReadRangeRequestC2B:
    """Read a partition from `offset` on, below `end_offset` if given, without a group and without a registration."""

    client_id: str = required(1, STR)
    topic_name: str = required(2, STR)
    partition_id: int = required(3, I32)
    offset: int = required(4, I64)
    end_offset: int | None = optional(5, I64, default=None)
    max_messages: int | None = optional(6, I32, default=None)
    max_bytes: int | None = optional(7, I32, default=None)
    max_wait_ms: int | None = optional(8, I32, default=None)


@message
class ReadRangeResponseB2C:
    """`messages` has the number it has in `GetMessageResponseB2C`, so the same stored bytes serve both.

    301 when `offset` lies below `min_offset`, 404 when nothing is there (yet); the three offsets are told with 200,
    301 and 404.
    """

    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str | None = optional(3, STR, default=None)
    messages: tuple[TransferedMessage, ...] = repeated(4, TransferedMessage, default=())
    next_offset: int | None = optional(5, I64, default=None)
    min_offset: int | None = optional(6, I64, default=None)
    max_offset: int | None = optional(7, I64, default=None)


@message
class TopicPartition:
    """A partition of the Broker that is asked."""

    topic_name: str = required(1, STR)
    partition_id: int = required(2, I32)


@message
class PartitionOffsetsRequest:
    """Ends of the given partitions, of all when none is given; with groups, their positions too.

    `group_names` empty and `all_groups` unset: no positions. `not_before_ms` is reserved: offset lookup by time.
    """

    client_id: str = required(1, STR)
    partitions: tuple[TopicPartition, ...] = repeated(2, TopicPartition, default=())
    group_names: tuple[str, ...] = repeated(3, STR, default=())
    all_groups: bool | None = optional(4, BOOL, default=None)
    not_before_ms: int | None = optional(5, I64, default=None)


@message
class PartitionEnds:
    """`min_offset` is the first readable one, `max_offset` the one the next message gets."""

    topic_name: str = required(1, STR)
    partition_id: int = required(2, I32)
    min_offset: int = required(3, I64)
    max_offset: int = required(4, I64)


@message
class GroupPosition:
    """How far a group has confirmed in a partition, and who holds it now."""

    group_name: str = required(1, STR)
    topic_name: str = required(2, STR)
    partition_id: int = required(3, I32)
    confirmed_offset: int = required(4, I64)
    consumer_id: str | None = optional(5, STR, default=None)


@message
class PartitionOffsetsResponse:
    """Answer to `PartitionOffsetsRequest`; unknown partitions are left out."""

    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    partitions: tuple[PartitionEnds, ...] = repeated(4, PartitionEnds, default=())
    groups: tuple[GroupPosition, ...] = repeated(5, GroupPosition, default=())
