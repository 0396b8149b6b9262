"""Everything on the wire that this system adds to the original's protocol, in one table.

The invariant: a peer that knows none of this (Java, C++, Go) sees only unknown protobuf fields, which every proto2
reader skips, and never a method it did not ask for. So fields are numbered from 1000 and methods from 100, far from
what the original may still add, and a new method is only called after the peer has shown the capability for it.

The exchange of capabilities: the first request on a connection carries `RpcConnHeader.capabilities` (field 1000), a bit
set of what the caller knows; a peer that understands the field answers with its own bits in the same field of that
answer. A peer that does not answer it has no capability, and is spoken to exactly as the original would.
Numbers are never used twice, also after an extension is dropped: reserve, do not recycle.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, unique
from typing import Final

from pytubemq.errors import Code

# Part of the protocol: with other codes at one end the counts would part, and batches in order be refused.
COUNTED_REFUSALS: Final = frozenset({Code.SERVER_RECEIVE_OVERFLOW, Code.SERVICE_UNAVAILABLE})
"""Codes after which a producer sends a batch again; it and the Broker count them on each connection alike."""
# A producer acts on these words, so they are part of the protocol.
EARLIER_BATCH_REFUSED: Final = "an earlier batch of this producer was refused"
"""The start of the text with which a Broker refuses a batch that was sent without knowledge of an earlier refusal."""
FENCED_EPOCH: Final = "a newer epoch of this producer is known"
"""The start of the text with which a Broker refuses a message of an epoch older than one it has seen (403)."""
FORGOTTEN_SEQUENCE: Final = "the sequence is too old to be told from a repeat"
"""The start of the text with which a Broker refuses a message that it may or may not have stored before (400)."""


class Capability(IntFlag):
    """The capabilities of one side of a connection; 64 bits in `RpcConnHeader`."""

    # 1 << 0 is reserved: an early version sent batches with method 100
    FETCH_LIMITS = 1 << 1  # GetMessage: long wait at the tail, limit in messages and in bytes
    MESSAGE_OFFSETS = 1 << 2  # TransferedMessage has its own offset and append time
    COMMIT_OFFSET = 1 << 3  # CommitOffset up to a given offset
    OFFSET_BY_TIME = 1 << 4  # PARTITION_OFFSETS answers "first offset appended at or after"
    HEARTBEAT_WAIT = 1 << 5  # heartbeats to the Master may be held until there is something to say
    PRODUCER_SEQUENCE = 1 << 6  # sends carry producer id, epoch and sequence; they are stored
    READ_RANGE = 1 << 7  # READ_RANGE: read a partition without a group
    PARTITION_OFFSETS = 1 << 8  # PARTITION_OFFSETS: ends of partitions and positions of groups
    BIG_BLOCKS = 1 << 9  # frames may come in one block of any size instead of blocks of 8,192 bytes
    PACKS = 1 << 10  # SEND_PACKS, and batches in the responses of GetMessage and READ_RANGE
    IDEMPOTENT = 1 << 11  # duplicates of a producer's sequence are dropped; set by Brokers
    RESET_OFFSETS = 1 << 12  # RESET_OFFSETS and RESET_HISTORY
    TOPIC_NAMES = 1 << 13  # the Master sends the names of all topics
    RANGE_FILTERS = 1 << 14  # READ_RANGE takes message types, and PARTITION_OFFSETS returns bytes
    RESET_NOTICES = 1 << 15  # a registration ends (301) when somebody moves its group; the next one has the epoch
    ACCESS = 1 << 16  # the Master sends Brokers users, permissions and the keys of tokens, and Brokers check them


@unique
class ExtensionMethod(IntEnum):
    """Methods of ours, from 100 up. All belong to the Broker."""

    # 100 is reserved: an early version sent batches with it, which SEND_PACKS replaced
    READ_RANGE = 101
    PARTITION_OFFSETS = 102
    SEND_PACKS = 103
    RESET_OFFSETS = 104
    RESET_HISTORY = 105


# Not `@unique`: numbers are per message, and fields of different messages share them.
class ExtensionField(IntEnum):
    """Fields of ours inside the original's messages, from 1000 up. One number has one meaning per message."""

    # RpcConnHeader, request and answer
    CAPABILITIES = 1000
    # HeartRequestP2M, HeartRequestC2M, HeartRequestC2MV2, HeartRequestB2M: how long the Master may hold the response,
    # ms
    HEARTBEAT_MAX_WAIT_MS = 1000
    # HeartRequestP2M: ask where the topics are deployed, whether the Brokers there run or not
    WANT_DEPLOYED = 1001
    # HeartRequestP2M, HeartResponseM2P: ask for the names of all topics; the names
    WANT_TOPIC_NAMES = 1002
    TOPIC_NAMES = 1003
    # RegisterRequestB2M: who reads from the Broker now, as subscriptions (a Master that has just started knows nobody)
    BROKER_LEASES = 1000
    # RegisterRequestB2M: when messages count as accepted in topics of which the Master says nothing
    OWN_DURABILITY = 1001
    # RegisterRequestB2M: the port of its pages, where it has some
    OWN_WEB_PORT = 1002
    # HeartRequestB2M: what is wrong with the Broker, in words
    BROKER_PROBLEMS = 1001
    # RegisterRequestB2M: what the strings of the configuration in force cannot say, as topic:value
    HELD_DURABILITY = 1003
    HELD_RETENTION = 1004
    # RegisterRequestB2M, from a Broker without a configuration: the topics of its store, as topics' settings
    STORED_TOPICS = 1005
    # RegisterRequestB2M, HeartRequestB2M: the version of users and permissions that the Broker has, 0 for none
    ACCESS_VERSION = 1006
    # RegisterResponseM2B, HeartResponseM2B: users, permissions and keys, to a Broker that has another version
    BROKER_ACCESS = 1004
    # RegisterResponseM2B, HeartResponseM2B, with the configuration: what its strings cannot say, as topic:value
    TOPIC_DURABILITY = 1002
    TOPIC_RETENTION = 1003
    # SendMessageRequestP2B, TransferedMessage (as stored): who sent it and as which one
    PRODUCER_ID = 1002
    PRODUCER_EPOCH = 1003
    SEQUENCE = 1004
    # TransferedMessage: where and when it was appended (our Brokers always set them)
    OFFSET = 1000
    APPEND_TIME = 1001
    # GetMessageRequestC2B: wait at the tail, ms; most messages; most bytes of payload
    FETCH_MAX_WAIT_MS = 1000
    FETCH_MAX_MESSAGES = 1001
    FETCH_MAX_BYTES = 1002
    # GetMessageResponseB2C: the offset after the last one delivered or skipped
    NEXT_OFFSET = 1000
    # GetMessageResponseB2C: messages that retention removed before the group had confirmed them
    EXPIRED_MESSAGES = 1001
    # GetMessageResponseB2C, ReadRangeResponseB2C: stored batches, for a consumer that has shown PACKS
    PACKS = 1003
    # RegisterResponseB2C: grows each time somebody moves the group in this partition, for who has shown RESET_NOTICES
    RESET_EPOCH = 1000
    # CommitOffsetRequestC2B: confirm everything below this offset, whatever was fetched after it
    COMMIT_UP_TO = 1000


OURS: Final = (
    Capability.FETCH_LIMITS
    | Capability.MESSAGE_OFFSETS
    | Capability.COMMIT_OFFSET
    | Capability.HEARTBEAT_WAIT
    | Capability.PRODUCER_SEQUENCE
    | Capability.READ_RANGE
    | Capability.PARTITION_OFFSETS
    | Capability.BIG_BLOCKS
    | Capability.OFFSET_BY_TIME
    | Capability.IDEMPOTENT
    | Capability.PACKS
    | Capability.RESET_OFFSETS
    | Capability.TOPIC_NAMES
    | Capability.RANGE_FILTERS
    | Capability.RESET_NOTICES
    | Capability.ACCESS
)
"""The capabilities of this version; the reserved ones are left out until they work."""
