"""Every bound of the system in one place, each with its precedent.

Sizes are bytes and times seconds unless the name says otherwise. A bound that operators may change is a setting in
`server.sections` with its default here.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * 1024

# --- the wire ---------------------------------------------------------------------------------------------------
BLOCK_BYTES: Final = 8192
"""Block size we emit to a peer that has not shown BIG_BLOCKS (Java, C++ and Go all emit 8,192; C++ accepts no more)."""
MAX_FRAME_BYTES: Final = 28 * MIB
"""Content of one frame (the Java limit: 20 MiB message + 8 MiB rest)."""
MAX_FRAME_BLOCKS: Final = 3584
"""Blocks in one frame (Java's limit: MAX_FRAME_BYTES / BLOCK_BYTES)."""
MAX_REQUEST_BYTES: Final = 2 * MIB
"""Frame of a request that carries no messages and reports no state. The longest, a heartbeat for 10,000 partitions, has
1.3 MB."""
MAX_REPORT_BYTES: Final = 8 * MIB
"""Frame of a request that reports a state (a Broker's configuration, 80 bytes for each topic, and leases; a member's
partitions, 100 bytes each) or that queries many partitions. Also of the response to a batch."""
MAX_HEADER_BYTES: Final = 4 * KIB
"""One header of the envelope; the real ones have under 100."""
MAX_ANSWER_BYTES: Final = 8 * MIB
"""Target of the largest fetch response; C++ clients accept 1,024 blocks of 8,192."""

# --- names and messages -----------------------------------------------------------------------------------------
MAX_CLIENT_ID_CHARS: Final = 1024
MAX_GROUP_CHARS: Final = 1024
MAX_HOST_CHARS: Final = 256
MAX_TOPIC_CHARS: Final = 64
MAX_VERSION_CHARS: Final = 128
"""The version in a Broker's client id (`2.4.0`; a build's own may be longer)."""
MAX_FILE_NAME_BYTES: Final = 255
"""One name in a directory (the bound of Linux's file systems)."""
MAX_SHOWN_CHARS: Final = 120
"""Characters of a peer's text that an error or a log line repeats."""
MAX_TOPICS_PER_CLIENT: Final = 1024
MAX_UNKNOWN_NAMES: Final = 16
"""Names without a topic that the Master remembers of one producer, to notify it when the topic is created."""
MAX_FILTER_ITEMS: Final = 500
MAX_FILTER_ITEM_CHARS: Final = 256
DEFAULT_MAX_MESSAGE_BYTES: Final = 1 * MIB
MAX_MESSAGE_BYTES: Final = 20 * MIB
"""The original's bounds for a topic's `maxMsgSize` (1 to 20 MiB)."""
ATTRIBUTE_ALLOWANCE_BYTES: Final = 10 * KIB
"""Bytes that a payload may have beyond the topic's limit: the original's allowance for the attribute block."""
MAX_PARTITIONS_PER_TOPIC: Final = 10_000
MAX_PARTITIONS_PER_BROKER: Final = 100_000
"""Partitions of all topics of one Broker; a configuration with more is not put in force (Kafka advises 4,000)."""
MAX_FLOW_RULES_CHARS: Final = 64 * KIB
"""Text of the flow-control rules of a cluster or a group."""
MAX_FLOW_RULES: Final = 200
"""Flow-control rules of one type."""

MAX_INT32: Final = 2**31 - 1
"""The largest number of a signed 32-bit field, as serial numbers, partition ids and timeouts are."""

# --- connections ------------------------------------------------------------------------------------------------
CONNECT_TIMEOUT_S: Final = 3.0
DEFAULT_REQUEST_TIMEOUT_S: Final = 10.0
"""The time that also a Broker or Master assumes for a request that names no timeout (the original then never
answers)."""
DEFAULT_READER_RETRY_S: Final = 60.0
"""The wait of a reader of a range for a Broker that is away: a restart of it."""
MAX_REQUEST_TIMEOUT_S: Final = 600.0
FRAME_TIMEOUT_S: Final = 30.0
"""A frame that has begun must be whole by then, or the connection is closed."""
TLS_HANDSHAKE_TIMEOUT_S: Final = 10.0
"""A TLS handshake must be complete by then, or the connection is closed (Netty's default, which the original has)."""
TLS_CLOSE_TIMEOUT_S: Final = 1.0
"""A peer may take so long to confirm the end of a TLS connection."""
CERTIFICATE_WARNING_S: Final = 14 * 86_400
"""The time before the expiry of a server's certificate from which its health says so."""
TLS_RELOAD_PERIOD_S: Final = 2.0
"""The time between two looks at the files of certificates and of an OIDC issuer's keys; changed ones are loaded."""
IDLE_TIMEOUT_S: Final = 300.0
"""A connection without any byte for so long is closed (Java's idle rule)."""
SILENT_CONNECTION_S: Final = 3.0
"""A client gives up a connection on which calls ran out of time and no byte came for so long, and makes another."""
IDLE_CONNECTION_S: Final = 240.0
"""A client closes a connection over which it asked nothing for so long, before its peer does; the next use opens
another."""
VANISHED_PEER_S: Final = 60.0
"""A connection whose bytes nobody acknowledges for so long is broken (TCP_USER_TIMEOUT, keepalive). Not less, because
a peer that is busy or paused and does not read meanwhile looks alike; a client with calls open gives up sooner."""
MAX_CONNECTIONS: Final = 10_000
"""Connections of one server; fewer where the operating system allows fewer open files."""
REFUSALS_SHOWN_S: Final = 60.0
"""The time for which health names refused connections after the last one, so that a check once a minute sees them."""
MAX_OPEN_FILES: Final = 65_536
"""The open files that a server's process requests from the operating system."""
MAX_OPEN_LOG_FILES: Final = 4096
"""Logs and indexes of partitions that a Broker keeps open at a time; a file costs 4 us to open again."""
MAX_WORKERS: Final = 64
"""Brokers that one command runs as processes of one machine."""
SERVING_SLICE_S: Final = 0.02
"""The time for which a server goes on with the requests of one read of a connection before others have their turn. A
read of 256 KiB of our own producer takes 5 to 10 ms."""
PUT_OFF_SLICE_S: Final = 0.005
"""Seconds in one turn of the loop for all connections together whose requests the server had to put off. A small
request of another host takes three or four turns."""
MAX_CALLS_PER_CONNECTION: Final = 10_000
"""Unanswered calls of one connection; beyond it the server stops reading from it."""
MAX_BUFFERED_BYTES: Final = 512 * MIB
"""Bytes of unfinished frames and of unanswered requests at one server, of all its connections together; beyond it one
of the host that holds the most of them is closed."""
MAX_CALL_BYTES: Final = 128 * MIB
"""The part of these that unanswered requests may take, each with 2 KiB beside its body; beyond it the server stops
reading from connections of hosts with more than their share. Sends under way take 64 MiB (`MAX_STAGED_BYTES`), 20,000
heartbeats that wait 40 MiB."""
MAX_UNSENT_BYTES: Final = 64 * MIB
"""Responses that a peer does not read; beyond it the connection is closed (a well-behaved one pauses us before)."""
MAX_UNSENT_TOTAL_BYTES: Final = 256 * MIB
"""Responses that peers have not read, and fetches under way, of all connections of a server together. Beyond it no
further fetch begins, and connections of stalled peers are closed; beyond twice of it also the slowest reader's."""
RESPONSE_PERIOD_S: Final = 120.0
RESPONSE_LEAST_BYTES: Final = 64 * KIB
"""The bytes of responses that a peer must read in each such period, or its connection is closed. The period is long
because a reader may work on one batch for a minute (Redis closes subscribers after 60 s, NATS after 10 s)."""
STALLED_PERIOD_S: Final = 5.0
STALLED_LEAST_BYTES: Final = 64 * KIB
"""These bytes while the budget above is used up."""
CROWDED_PERIOD_S: Final = 2.0
"""The period instead, with its part of the bytes, while others wait that have read all their responses."""
CROWDED_DEBT_S: Final = 20.0
"""The time within which a peer must meanwhile read what it owes."""
SMALL_READ_BYTES: Final = 64 * KIB
"""The most, while half of the budget above is used, that is read at once for a peer without proof that it reads (one
message always). Such a read may begin beyond the budget if the peer has read all its responses: the buffer of the
operating system takes its response, so a consumer of small messages is served beside any crowd."""
PROVEN_READER_BYTES: Final = 16 * MIB
"""A peer that has received this much really reads: the buffers of both operating systems together hold less."""
SILENT_UNTIL_CLOSED_S: Final = 30.0
"""A connection that is silent for this long makes room for a new one when all places are taken: a registered peer would
have sent a heartbeat meanwhile."""

# --- long polls: requests that a server holds until there is news ------------------------------------------------
MAX_HEARTBEAT_WAIT_S: Final = 10.0
"""A heartbeat at the Master."""
MAX_FETCH_WAIT_S: Final = 30.0
"""A fetch at a Broker."""

# --- the Master -------------------------------------------------------------------------------------------------
CLIENT_TIMEOUT_S: Final = 30.0
"""A producer, consumer or Broker that has sent nothing for so long is gone (the original's 30 s)."""
LOST_CONNECTION_GRACE_S: Final = 3.0
"""One of ours whose connection broke, and who has not come back by then, is gone."""
FOREIGN_CONNECTION_GRACE_S: Final = 14.0
"""The grace of a client that is none of ours, from its last heartbeat on, at the Master at least so long: Java beats
every 13 s and does not notice a closed connection before."""
HEARTBEAT_IN_FLIGHT_S: Final = 3.0
"""The time before its deadline in which a break of such a client's connection may have hit its next heartbeat, and
Java sends another only a period later. Then the time above counts from the break."""
EVENT_TIMEOUT_S: Final = 30.0
"""An event that its consumer has not acknowledged by then is dropped and the group balanced anew."""
MAX_EVENT_PARTITIONS: Final = 20_000
MAX_EVENT_BYTES: Final = MAX_REPORT_BYTES
"""Partitions of one event, and their text: as much as a member can report, less than a client reads
(`MAX_WIRE_SUBSCRIPTIONS`). The rest is in the events that follow."""
EVENT_RESEND_S: Final = 5.0
"""A heartbeat that does not acknowledge the event sent so long ago gets it again (the original never resends)."""
MAX_FORGONE_EVENTS: Final = 2
"""Events in a row without acknowledgement, after which a consumer is put out of its group and must register again."""
RESTART_GRACE_S: Final = 15.0
"""The time after a start of the Master for which what has not come back yet counts as on its way (Java's heartbeat is
13 s)."""
META_FORCE_UPDATE_S: Final = 180.0
"""A client-balanced consumer whose knowledge of the partitions is older gets it with a heartbeat (the original's
maxMetaForceUpdatePeriodMs)."""
MAX_BROKERS_PER_CLIENT: Final = 1000
"""Brokers one consumer may have to read from, unless its group's record says otherwise (maxGroupBrokerConsumeRate)."""
REJOIN_ROUND_S: Final = 30.0
"""One round of `reJoinWait`, for whoever an operator takes out of a group's sharing (the period of the
original's balance rounds; there are none here)."""
BROKER_ABSENCE_S: Final = 30.0
"""The time for which the partitions of a Broker that went away stay with their consumers; then they are withdrawn."""
MAX_CLIENTS: Final = 50_000
"""Producers and consumers registered at one Master; beyond it a registration is refused with 400."""
MAX_CLIENTS_PER_CONNECTION: Final = 10_000
"""Producers, and as many consumers, of one connection: a gateway has thousands; memory is bounded by the two around."""
MAX_CLIENT_STATE_BYTES: Final = 128 * MIB
"""Bytes that all clients may have reported to the Master about themselves (topics, filters, partitions), as they sent
it."""
MAX_DROPPED_FOR_ONE: Final = 500
"""Clients that never sent a heartbeat and make room for one registration; one that would need more is refused. The
longest of a member with 10,000 partitions has 1 MB, and those that only register have a few KB each."""
MAX_REGISTRATION_TEXT_BYTES: Final = 16 * KIB
"""Text that a client's registration may have beside its topics, filters and partitions: ids, host, versions,
credentials; of Java's and ours under 1 KiB."""
MAX_SECRET_FILE_BYTES: Final = 4 * KIB
"""A file with the secret of a user; the secrets that the Master makes have 43 characters."""
MAX_STRAY_PARTITIONS: Final = 10_000
"""Partitions that a member or a Broker may report beyond those of the records: from before a change of these."""
MAX_UNKNOWN_TOPICS: Final = 200_000
"""Topics that no record has, of all Brokers together, which a Master keeps until an operator decides, in about 120 MB:
two Brokers full of topics of one partition. Beyond it a Broker that reports such topics is refused with 400."""
REPORT_SLICE: Final = 1_000
"""Texts of a Broker's registration that are read in one turn of the loop, in about 10 ms."""
SHORT_REGISTRATION_BYTES: Final = 64 * KIB
"""A Broker's registration that does not wait for longer ones: it names some 2,000 topics and takes about 0.1 s."""
MAX_SHORT_REGISTRATIONS: Final = 2
MAX_LONG_REGISTRATIONS: Final = 1
"""Registrations of Brokers that a Master works on at the same time: a slice of each runs in every turn of its loop."""
MAX_LONG_HEARTBEATS: Final = 1
"""Heartbeats of Brokers, longer than a short registration, that a Master takes in between two turns of others."""
MAX_TOPIC_ENDINGS: Final = 1_000
"""Different settings of topics whose text a Master keeps for each Broker; with more it formats them anew."""
MAX_BROKERS: Final = 1_000
"""Brokers that a Master registers automatically."""
MAX_BROKERS_PER_CONNECTION: Final = 16
"""Brokers that one connection may register; an honest Broker has a connection of its own."""
BROKER_TAKE_BACK_S: Final = 600.0
"""The time in which a Broker may return to its record's previous address while the one that took the record has no
topic of its own; a restart with a long recovery takes less."""
UNUSED_BROKER_S: Final = 3600.0
"""The time for which the record of an absent auto-registered Broker without topics is kept."""
MAX_ABSENT_UNUSED_BROKERS: Final = 100
"""Records of such Brokers; beyond it those away longest are deleted at once."""
MAX_AUTO_FORBIDDEN: Final = 5
"""Brokers that the Master takes something from at the same time because of what they report (the original's 5)."""
MAX_HELD_HEARTBEATS: Final = 20_000
"""Heartbeats the Master holds at once; beyond it they are answered at once, which costs traffic and nothing else."""
FIRST_BROKER_WAIT_S: Final = 10.0
"""The time after a start of the Master for which the creation of a topic waits for a first Broker. A Broker that looks
for its Master waits up to 5 s between tries, and one that starts with it loads and recovers first (Kafka's controller
leaves a Broker one session of 9 s)."""
BROKER_READY_TIMEOUT_S: Final = 5.0
"""The time that a process with both roles gives its Broker to report its topics before it opens the Master's ports (as
long as the Broker waits for a Master at its own start)."""
TOPIC_READY_TIMEOUT_S: Final = 5.0
"""The time for which the creation or removal of a topic waits for the Brokers to report it."""
MAX_TOPICS_PER_CALL: Final = 1_000
"""Topics that one call creates; the Brokers have `TOPIC_READY_TIMEOUT_S` for all of them. (Kafka's createTopics has no
number of its own, its frame is the limit; the original's batch call takes what fits into a form.)"""
FOREIGN_TOPIC_TIMEOUT_S: Final = 18.0
"""This wait where a Broker does not hold its heartbeats: with one it hears of the change, with the next it reports it,
and the original sends one every 8 s."""
INSPECT_TIMEOUT_S: Final = 2.0
"""The time for one request about offsets to one Broker."""
RESET_TIMEOUT_S: Final = 10.0
"""The time for one Broker to reset a group in its partitions, which is durable by then; it may read for it."""
MAX_INSPECTED_AT_ONCE: Final = 16
"""Brokers that are queried about offsets at the same time."""
MAX_INSPECTED_PER_REQUEST: Final = 10_000
"""Partitions of a Broker in one request about positions of groups, so that it responds within `INSPECT_TIMEOUT_S`."""
INSPECTED_SLICE: Final = 2_000
"""Values of a Broker's response about offsets that the Master reads in one turn of the loop, in about 10 ms."""
MAX_REPORTED_PROBLEMS: Final = 16
"""The problems that a Broker reports to the Master, and that the Master keeps of these."""
MAX_PROBLEM_CHARS: Final = 500
MAX_HTTP_BODY_BYTES: Final = 1 * MIB
"""Body of a request over HTTP."""
MAX_METADATA_BODY_BYTES: Final = 16 * MIB
"""Body of a request with the metadata of a whole cluster."""
MAX_WEBAPI_PARAMS: Final = 128
"""Parameters of one call of `/webapi.htm` (the longest list of the original's has under 40)."""
MAX_WEBAPI_ITEMS: Final = 10_000
"""Items of a list in one call."""
MAX_WEBAPI_TARGETS: Final = 10_000
"""The most targets that one call may change: the product of its lists."""
MAX_RECORDS: Final = 1_000_000
"""Records of one kind that a Master keeps, where nothing says less; beyond it a new one is refused."""
MAX_CONSUME_RECORDS: Final = 100_000
"""Records of what groups may do with topics; beyond it a new one is refused."""
MAX_GROUP_RECORDS: Final = 100_000
"""Records of group settings; beyond it a new one is refused."""
MAX_TOKEN_CHARS: Final = 128
"""The administration's token (the original's length)."""
HTTP_REQUEST_TIMEOUT_S: Final = 10.0
"""A request to the JSON API, head and body, must be whole by then, or its connection is closed."""
MAX_HTTP_CONNECTIONS: Final = 256
"""Connections over HTTP; beyond it the one that has been asking longest is closed for the new one, or that has been
reading longest."""
MAX_LONG_ANSWERS: Final = 16
"""Long responses over HTTP that wait while another is built; beyond them: 503."""
HTTP_SEND_BUFFER_BYTES: Final = 128 * KIB
"""The part of an HTTP response that the operating system may buffer; the rest is counted as unread."""
HTTP_READ_PERIOD_S: Final = 30.0
HTTP_READ_LEAST_BYTES: Final = 16 * KIB
"""Bytes that a peer must read of an HTTP response in each such period, or its connection is closed."""
MAX_HTTP_UNSENT_BYTES: Final = 128 * MIB
"""HTTP responses that peers have not read yet, of all connections together, the newest not counted; beyond it the
connection that has been reading longest is closed."""

# --- the Broker -------------------------------------------------------------------------------------------------
BROKER_HEARTBEAT_PERIOD_S: Final = 8.0
"""The time between a Broker's heartbeats to a Master that does not hold them (the original's 8 s)."""
RETENTION_CHECK_S: Final = 60.0
"""The time between two passes of retention."""
LEASE_TIMEOUT_S: Final = 30.0
"""The lease of a consumer's registration without heartbeat or fetch (the original's consumerRegTimeoutMs)."""
MAX_FETCH_BYTES: Final = 1 * MIB
"""Payload of one fetch unless asked for less; one message may exceed it (the original's transferSize)."""
MAX_FETCH_MESSAGES: Final = 100_000
MAX_SCAN_ENTRIES: Final = 40_000
"""Index entries a filtered fetch looks at before it answers, perhaps empty-handed (original: 3 x 13,500)."""
MAX_STAGED_BYTES: Final = 64 * MIB
"""Messages accepted and waiting for the journal; beyond it sends are refused with 419."""
MAX_UNAPPLIED_BYTES: Final = 128 * MIB
"""Messages in the journal and not yet in their partition's log (held in memory); beyond it the journal waits."""
MAX_JOURNAL_WRITE_BYTES: Final = 4 * MIB
"""The most that one journal write includes; more waits for the next, so that one flush does not delay the loop."""
MAX_WAITING_FETCHES: Final = 10_000
"""Fetches that wait at the end of their partitions; beyond it they are answered at once, with 404."""
MAX_PENDING_READS: Final = 1_000
"""Fetches that wait for the disk; beyond it they are refused with 503."""
MAX_READS_PER_CONNECTION: Final = 4
"""Fetches of one connection that are read at the same time; the others wait, so that a peer with hundreds of them
under way is sent what it can take and no more is held for it."""
DISK_READERS: Final = 2
"""Threads that read partitions from the disk."""
MAX_WATCHED_POSITIONS: Final = 100_000
"""Positions of groups that one pass of retention scans for coming losses, and one scrape of the metrics for lag; with
more positions, neither is reported."""
MAX_REGISTRATIONS: Final = 100_000
"""Consumers' registrations at one Broker; beyond it a new one replaces one of the host, then the connection, that
has most, and is refused with 503 where all have a fair share."""
MAX_REPORTED_LEASES: Final = 20_000
"""Consumers' registrations that a Broker reports when it registers; the others only the Broker protects (410)."""
MAX_REGISTRATION_BYTES: Final = MAX_REPORT_BYTES - 64 * KIB
"""A Broker's registration: its configuration, and as many leases as fit in beside it; the rest of the frame is
spare."""
MAX_RECORD_BATCH_MESSAGES: Final = 16_384
"""Messages of one record batch: so many that work per batch does not count, so few that a reader gets it whole."""
MAX_RECORD_BATCH_BYTES: Final = 1 * MIB
"""Payload bytes at which a producer closes a record batch; one message may be larger and is then a batch alone."""
MAX_RECORD_BATCHES: Final = 4_096
"""Record batches of one send; beyond it the whole request is refused with 400."""
MAX_RECORD_BATCH_FAULTS: Final = 64
"""Messages of one send that are refused individually (a record batch is cut at each); a batch with one more is refused
as a whole."""
MAX_WINDOWS: Final = 100_000
"""Pairs of a producer and a partition for which a Broker keeps the sequences, in about 150 MB; beyond it the one silent
longest is forgotten."""
MAX_WINDOW_PARTS: Final = 1_000_000
"""Ranges of sequences, and places where they were stored, that a Broker keeps of all producers together; beyond it
those who were silent longest keep few places, and then go."""
MAX_POSITIONS: Final = 1_000_000
"""Confirmed offsets one Broker keeps, one for each group and partition; beyond it positions that no consumer has used
make room, and if there are none a new one is refused with 400."""
MAX_RESET_POSITIONS: Final = 100_000
"""Positions of one Broker that peers' resets have created and no consumer has used since: a tenth of all, and ten
groups in as many partitions as a topic can have. With more, the oldest of the host that has most are removed."""
MAX_DEFERRED_REGISTRATIONS: Final = 10_000
"""Registrations and farewells that wait for a confirm in flight, of all connections of a Broker; beyond it they are
refused with 503. As many as consumers of a whole topic that register at once."""
MAX_POSITIONS_CHARS: Final = 6 * MIB
"""Text in one response with positions of groups, so that it is a frame in any script; beyond it: 400."""
LONG_WORK_SLICE: Final = 500
"""Items of a long request (resets, partitions, positions) that are worked on in one turn of the loop, in 1 to 6 ms."""
MAX_LONG_REQUESTS: Final = 8
"""Long requests that are worked on at the same time, one of a connection and half of one host; each may hold a response
of 8 MiB."""
SHORT_REQUEST_BYTES: Final = 16 * KIB
"""A long request that does not wait for longer ones: a group is moved in, or asked about in, some 1,000 partitions."""
MAX_SHORT_REQUESTS: Final = 4
"""Requests of that size that are worked on at the same time, beside the longer ones."""
MAX_LONG_CALLS: Final = 64
"""Such requests of one connection that a Broker keeps at a time; also registrations and long heartbeats of Brokers at a
Master. One more is refused with 503 at once. A Master asks a Broker for one group at a time, for each of its callers
over HTTP."""
MAX_RESETS: Final = 10_000
"""Positions that one request may move (RESET_OFFSETS); as many as a topic can have partitions."""
MAX_RESET_RECORDS: Final = 10_000
"""Moves of positions that a Broker remembers, in about 2 MB; then the oldest of the host, then the group, that has most
of them go."""
MAX_RESET_EPOCHS: Final = 100_000
"""Partitions of groups for which a Broker remembers when the group was last moved there, in about 20 MB; as many as it
has registrations."""
MAX_USER_CHARS: Final = 64
"""The name of who asks for a change (the original's bound)."""
MAX_INSPECTED_PARTITIONS: Final = 20_000
"""Partitions, with or without a group, in one response of the Broker's HTTP; beyond it: 400."""
MAX_SHOWN_MESSAGES: Final = 50
"""Messages in one response of the Broker's HTTP (the original's bound)."""
MAX_ORDERED_PRODUCERS: Final = 1024
"""Producers of one connection whose refused batches are counted; beyond it the longest quiet one is forgotten."""

# --- repeated fields --------------------------------------------------------------------------------------------
# Values that all occurrences of a field in one message may have; beyond it the message is not read. Where a handler has
# a bound of its own and a code for it (400), the bound here is twice that, so that a caller who is just above it gets
# the code. Protobuf takes 16 bytes for an empty string of two bytes and 96 for an empty message.
MAX_WIRE_FILTERS: Final = 2 * MAX_FILTER_ITEMS
MAX_WIRE_TOPICS: Final = 2 * MAX_TOPICS_PER_CLIENT
MAX_WIRE_PARTITIONS: Final = 2 * MAX_PARTITIONS_PER_TOPIC
MAX_WIRE_SUBSCRIPTIONS: Final = 100_000
"""Partitions of one member, or in one query: more than fit into `MAX_REPORT_BYTES`."""
MAX_WIRE_GROUPS: Final = 10_000
"""Groups of one query; ours name one, or ask for all."""
MAX_WIRE_POSITIONS: Final = 500_000
"""Partitions or positions in one response: more than fit into a frame with names of usual length."""
MAX_WIRE_RECORD_BATCHES: Final = 2 * MAX_RECORD_BATCHES
MAX_WIRE_SPANS: Final = 2 * (MAX_RECORD_BATCHES + 2 * MAX_RECORD_BATCH_FAULTS)
"""A record batch has one span, and two more for each message that is refused individually."""
MAX_WIRE_RESETS: Final = 2 * MAX_RESETS
MAX_WIRE_BROKERS: Final = 10 * MAX_BROKERS
"""Brokers in a Master's response; more than register automatically, since an administrator may record others."""
MAX_WIRE_SETTINGS: Final = 100_000
"""Topics of one Broker in its configuration: more than fit into `MAX_REPORT_BYTES`."""
MAX_WIRE_LEASES: Final = 2 * MAX_REPORTED_LEASES
MAX_USERS: Final = 10_000
"""Users of a cluster."""
MAX_PERMISSIONS: Final = 100_000
"""Permissions of all users together."""
MAX_USER_TOKENS: Final = 20
"""Bearer tokens of one user."""
AUDIT_DAYS: Final = 90
"""Days for which the audit trail is kept, unless a setting says otherwise."""
MAX_AUDIT_ENTRIES: Final = 20_000
"""Entries of the audit trail; beyond it the oldest go, whatever their age."""
MAX_AUDIT_CHARS: Final = 2_000
"""The state before, or after, in one entry of the audit trail."""
STORY_DAYS: Final = 7
MAX_STORY_EVENTS: Final = 20_000
MAX_STORY_EVENTS_OF_ONE: Final = 1_000
"""Events that a Master remembers of all groups and Brokers, and of one of them; beyond it the oldest go."""
MAX_STORY_CHARS: Final = 500
MAX_HTTP_SESSIONS: Final = 10_000
"""Sessions of people over HTTP; beyond it the one that was idle for longest ends."""
MAX_SIGN_INS: Final = 16
"""Passwords that are checked or wait for it at the same time."""
MAX_OIDC_TOKEN_CHARS: Final = 8 * KIB
"""An access token of an OIDC issuer; a longer one is refused unread."""
MAX_OIDC_KEYS_BYTES: Final = 256 * KIB
"""The file with the issuer's keys."""
MAX_OIDC_KEYS: Final = 64
"""Keys of one issuer."""
MAX_VERIFIED_TOKENS: Final = 1_000
"""Access tokens whose signatures need no new check; beyond it the one that was checked first needs one."""
OIDC_VERIFIED_S: Final = 60.0
"""For so long, and not beyond its expiry, a verified access token needs no new check of its signature."""
OIDC_LEEWAY_S: Final = 30.0
"""By so much the issuer's clock may differ from the Master's."""
MAX_ATTEMPT_KEYS: Final = 10_000
"""Users, and hosts, whose wrong passwords are counted; beyond it the oldest count is forgotten."""
MAX_WIRE_USERS: Final = 2 * MAX_USERS
MAX_WIRE_PERMISSIONS: Final = 2 * MAX_PERMISSIONS
MAX_WIRE_ACCESS_KEYS: Final = 32
MAX_WIRE_PROBLEMS: Final = 2 * MAX_REPORTED_PROBLEMS
MAX_WIRE_FOREIGN_FIELDS: Final = 10_000
"""Fields beyond those bounds that one count may visit: unknown ones, and known ones that repeat."""

# --- the client -------------------------------------------------------------------------------------------------
UNANSWERED_BROKER_S: Final = 1.5
"""A producer skips a Broker from which no response came for so long while one is due. Three flushes of a slow
disk (500 ms each), of which a request waits for two at most; half of SILENT_CONNECTION_S. (Kafka's
`partitioner.availability.timeout.ms` skips partitions whose messages wait for too long; off by default.)"""
PRODUCER_BUFFER_MESSAGES: Final = 100_000
PRODUCER_BUFFER_BYTES: Final = 64 * MIB
MAX_BATCH_BYTES: Final = 1 * MIB
MAX_BATCH_MESSAGES: Final = 2_000
HEARTBEAT_PERIOD_S: Final = 10.0
MAX_HEARTBEAT_PARTITIONS: Final = 10_000
"""Partitions in one heartbeat of a consumer to a Broker; a Broker of ours refuses more (400), a Java Broker has no
bound of its own but the frame. A consumer that holds more sends several."""
MAX_HEARTBEAT_BYTES: Final = 1 * MIB
"""Partitions in one such heartbeat, as text: half of what a frame other than a send may have, so that the response,
which may name each of them as failed, fits as well."""
CONFIRM_RETRY_S: Final = 300.0
"""The time for which a confirm is sent again while its Broker is away and nobody takes the partition from its consumer,
which the Master does after 30 s: it ends a wait for Broker and Master together (Kafka's max.poll.interval.ms)."""
MAX_KNOWN_PARTITIONS: Final = 100_000
"""Partitions of all topics that a client takes from one response of a Master; the rest is left out."""
WARNING_PERIOD_S: Final = 60.0
"""Least time between two warnings, or events, of a client about the same thing, while it goes on."""
CONFIRM_TIMEOUT_S: Final = 60.0
"""A batch that nobody confirmed or rejected by then goes back (Java's pullProtectConfirmTimeoutMs)."""

# --- pipeline files ---------------------------------------------------------------------------------------------
MAX_PIPELINE_FILE_BYTES: Final = 1 * MIB
MAX_PIPELINE_DEPTH: Final = 32
MAX_PIPELINE_NODES: Final = 100_000
"""Values of a file, those of an alias counted at each of its uses."""

# --- what is inside of messages -----------------------------------------------------------------------------------
MAX_DECODED_MESSAGE_BYTES: Final = 64 * MIB
"""One message's records after decompression; what says that it is larger is not unpacked."""
MAX_RECORDS_PER_MESSAGE: Final = 1_000_000
MAX_REPEATED_ATTRIBUTE_BYTES: Final = 256 * MIB
"""The attributes of one message's records, counted at each record: few bytes can say that many records have many."""
MAX_ATTRIBUTE_PAIRS: Final = 4_000_000
"""Pairs of one message's attributes, counted at each run of records that have the same."""
MAX_RECORD_ATTRIBUTE_BYTES: Final = 64 * KIB
"""The attributes of one group of records inside a message (the length field of the original has 16 bits)."""
