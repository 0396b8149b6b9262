"""Messages between producers or consumers and a Broker (`BrokerService.proto`).

Names and numbers are the protocol's own (proto2, no package); extension fields are named in `wire.protocol.extensions`.
"""

from __future__ import annotations

from pytubemq.model.limits import (
    MAX_FETCH_MESSAGES,
    MAX_WIRE_FILTERS,
    MAX_WIRE_PARTITIONS,
)
from pytubemq.wire.protobuf.schema import BOOL, BYTES, I32, I64, STR, message, optional, repeated, required
from pytubemq.wire.protocol.extensions import ExtensionField


@message
class TransferedMessage:
    message_id: int = required(1, I64)
    # The Broker's own, over attributes and body; consumers of the original drop a message silently if it does not fit.
    check_sum: int = required(2, I32)
    pay_load_data: bytes = required(3, BYTES)
    flag: int = required(4, I32)
    offset: int | None = optional(ExtensionField.OFFSET, I64, default=None)
    append_time: int | None = optional(ExtensionField.APPEND_TIME, I64, default=None)
    producer_id: int | None = optional(ExtensionField.PRODUCER_ID, I64, default=None)
    producer_epoch: int | None = optional(ExtensionField.PRODUCER_EPOCH, I32, default=None)
    sequence: int | None = optional(ExtensionField.SEQUENCE, I64, default=None)


@message
class AuthorizedInfo:
    # From the Master, which changes it every four minutes; -2 before the first.
    visit_authorized_token: int = required(1, I64, secret=True)
    auth_authorized_token: str | None = optional(2, STR, default=None, secret=True)


@message
class SendMessageRequestP2B:
    client_id: str = required(1, STR)
    topic_name: str = required(2, STR)
    # Store times 10,000 plus number. Go always sends the number alone.
    partition_id: int = required(3, I32)
    data: bytes = required(4, BYTES)
    flag: int = required(5, I32)
    # -1 from every producer: not checked (see `batch.checksum`).
    check_sum: int = required(6, I32)
    # IPv4 as a signed number: from 128.0.0.0 up it is negative, and ten bytes long.
    sent_addr: int = required(7, I32)
    # Repeats the attribute `$msgType$`. The Broker filters by this one, clients filter again by the attribute.
    msg_type: str | None = optional(8, STR, default=None)
    msg_time: str | None = optional(9, STR, default=None)
    auth_info: AuthorizedInfo | None = optional(10, AuthorizedInfo, default=None)
    producer_id: int | None = optional(ExtensionField.PRODUCER_ID, I64, default=None)
    producer_epoch: int | None = optional(ExtensionField.PRODUCER_EPOCH, I32, default=None)
    sequence: int | None = optional(ExtensionField.SEQUENCE, I64, default=None)


@message
class SendMessageResponseB2P:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    # On success the message id as text, where older clients look for it.
    err_msg: str = required(3, STR)
    require_auth: bool | None = optional(4, BOOL, default=None)
    message_id: int | None = optional(5, I64, default=None)
    append_time: int | None = optional(6, I64, default=None)
    append_offset: int | None = optional(7, I64, default=None)


@message
class RegisterRequestC2B:
    # 31 registers and 32 unregisters. There is no method of its own to unregister.
    op_type: int = required(1, I32)
    client_id: str = required(2, STR)
    group_name: str = required(3, STR)
    topic_name: str = required(4, STR)
    partition_id: int = required(5, I32)
    # Registering: where a group without a committed offset begins (0 first message, 1 end), or 2, which is always the
    # end. Unregistering: 0 confirms the last fetch, anything else drops it.
    read_status: int = required(6, I32)
    filter_cond_str: tuple[str, ...] = repeated(7, STR, most=MAX_WIRE_FILTERS, default=())
    # Where to begin, if it is not below 0; beats the committed offset, and readStatus 2 beats it.
    curr_offset: int | None = optional(8, I64, default=None)
    # Stored by the original and never used.
    session_key: str | None = optional(9, STR, default=None)
    session_time: int | None = optional(10, I64, default=None)
    ssd_store_id: int | None = optional(11, I64, default=None)
    qry_priority_id: int | None = optional(12, I32, default=None)
    auth_info: AuthorizedInfo | None = optional(13, AuthorizedInfo, default=None)


@message
class RegisterResponseB2C:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    curr_offset: int | None = optional(4, I64, default=None)
    max_offset: int | None = optional(5, I64, default=None)
    reset_epoch: int | None = optional(ExtensionField.RESET_EPOCH, I64, default=None)


@message
class HeartBeatRequestC2B:
    client_id: str = required(1, STR)
    group_name: str = required(2, STR)
    # Ignored by the original's Broker.
    read_status: int = required(3, I32)
    # `brokerId:host:port#topic:partitionId`, whatever the comments of the original's `.proto` say.
    partition_info: tuple[str, ...] = repeated(4, STR, most=MAX_WIRE_PARTITIONS, default=())
    ssd_store_id: int | None = optional(5, I64, default=None)
    qry_priority_id: int | None = optional(6, I32, default=None)
    auth_info: AuthorizedInfo | None = optional(7, AuthorizedInfo, default=None)


@message
class HeartBeatResponseB2C:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    # Partitions fail one by one: the code above stays 200. Java drops those that are named, and the Master hears of it
    # with its next full report.
    has_part_failure: bool | None = optional(4, BOOL, default=None)
    failure_info: tuple[str, ...] = repeated(5, STR, most=MAX_WIRE_PARTITIONS, default=())
    require_auth: bool | None = optional(6, BOOL, default=None)


@message
class GetMessageRequestC2B:
    client_id: str = required(1, STR)
    partition_id: int = required(2, I32)
    group_name: str = required(3, STR)
    topic_name: str = required(4, STR)
    # The confirm of the fetch before, if the client sends no CommitOffset: true folds it into the committed offset.
    last_pack_consumed: bool | None = optional(5, BOOL, default=None)
    manual_commit_offset: bool | None = optional(6, BOOL, default=None)
    # The client applies a rule of its own group, so the Broker leaves out the cluster's.
    esc_flow_ctrl: bool | None = optional(7, BOOL, default=None)
    max_wait_ms: int | None = optional(ExtensionField.FETCH_MAX_WAIT_MS, I32, default=None)
    max_messages: int | None = optional(ExtensionField.FETCH_MAX_MESSAGES, I32, default=None)
    max_bytes: int | None = optional(ExtensionField.FETCH_MAX_BYTES, I32, default=None)


@message
class GetMessageResponseB2C:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str | None = optional(3, STR, default=None)
    messages: tuple[TransferedMessage, ...] = repeated(4, TransferedMessage, most=MAX_FETCH_MESSAGES, default=())
    # Where this fetch began, not where the next one will; -1 with a failure. Hence our `next_offset`.
    curr_offset: int | None = optional(5, I64, default=None)
    # To be read with 452 only: with other failures the original leaves anything in it.
    min_limit_time: int | None = optional(6, I32, default=None)
    esc_flow_ctrl: bool | None = optional(7, BOOL, default=None)
    # Bytes that are left to read, of the whole store; the flow-control rules go by it.
    curr_data_dlt: int | None = optional(8, I64, default=None)
    require_slow: bool | None = optional(9, BOOL, default=None)
    max_offset: int | None = optional(10, I64, default=None)
    next_offset: int | None = optional(ExtensionField.NEXT_OFFSET, I64, default=None)
    expired_messages: int | None = optional(ExtensionField.EXPIRED_MESSAGES, I64, default=None)
    packs: tuple[bytes, ...] = repeated(ExtensionField.PACKS, BYTES, most=MAX_FETCH_MESSAGES, default=())


@message
class CommitOffsetRequestC2B:
    client_id: str = required(1, STR)
    topic_name: str = required(2, STR)
    partition_id: int = required(3, I32)
    group_name: str = required(4, STR)
    # Absent is true here, and false in a fetch.
    last_pack_consumed: bool | None = optional(5, BOOL, default=None)
    up_to: int | None = optional(ExtensionField.COMMIT_UP_TO, I64, default=None)


@message
class CommitOffsetResponseB2C:
    success: bool = required(1, BOOL)
    err_code: int = required(2, I32)
    err_msg: str = required(3, STR)
    curr_offset: int | None = optional(4, I64, default=None)
    max_offset: int | None = optional(5, I64, default=None)
