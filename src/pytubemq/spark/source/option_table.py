"""The source's options, each written once: what is accepted, refused and documented comes from this table.

The invariant: an option that is not in the table does not exist, and one that is in it is documented.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pytubemq.spark.cluster_option import DRIVERS_FILE, FILE, SECRET_FILE, SECRET_FILE_DOC, USER, USER_DOC


class Scope(StrEnum):
    """The reads that take an option."""

    BOTH = "both"
    BATCH = "batch"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class SourceOption:
    """One option. `name` ends with `*` where any name with that beginning is one."""

    name: str
    default: str
    """In words, as the documentation shows it."""
    scope: Scope
    takes: str
    """The value that it takes; errors name it, too."""
    doc: str
    since: str = "0.1"


_PLACES: Final = (
    "earliest, latest, group:NAME, or JSON by topic or partition of an offset, earliest, latest, group:NAME or a time, "
    'as in {"demo": "-10m", "1:demo:0": 280}'
)
_TIMES: Final = (
    "a time: ISO 8601 (2026-01-31T12:00:00Z), milliseconds since 1970, or one before now (-10m; s, m, h or d); "
    "or JSON of such times by topic or partition"
)

OPTIONS: Final = (
    SourceOption(
        "master",
        "needed",
        Scope.BOTH,
        'the Masters\' addresses, "host:port[,host:port...]"',
        "The Masters of the cluster. The port may be left out (8715, or 8716 over TLS). Over TLS, "
        "`tls://host:port?ca=FILE` is the same as `tlsCa` beside it.",
    ),
    SourceOption(
        "topic",
        "this or `topicPattern`",
        Scope.BOTH,
        "one topic or a list of them, separated by commas",
        "The topics to read. Each must exist when a query begins.",
    ),
    SourceOption(
        "topicPattern",
        "this or `topic`",
        Scope.BOTH,
        "a regular expression that the whole name of a topic matches",
        "Reads all topics of these names; a stream also those that are created while it runs, from their first "
        "message on. Needs a pytubemq Master. At most 1,024 topics.",
    ),
    SourceOption(
        "startingOffsets",
        "batch: `earliest`, stream: `latest`",
        Scope.BOTH,
        _PLACES,
        "The start of the read. A partition's own entry wins over its topic's; one without an entry begins at "
        "`earliest`. A partition in which the group has confirmed nothing begins there, too. A stream takes this for "
        "its first start only, then its checkpoint counts; partitions found later are read from their first message.",
    ),
    SourceOption(
        "startingTimestamp",
        "none",
        Scope.BOTH,
        _TIMES,
        "Reading begins at the first message appended then or later. Instead of `startingOffsets`.",
    ),
    SourceOption(
        "startingTimestampStrategy",
        "`error`",
        Scope.BOTH,
        "error, latest or earliest",
        "If a partition has no message that new: an error, or begin after its last message or at its first one.",
    ),
    SourceOption(
        "endingOffsets",
        "`latest`; a stream has no end",
        Scope.BOTH,
        _PLACES,
        "The end of the read, in the same forms; a partition without an entry ends at `latest`. A stream stops "
        "advancing there (with `availableNow` it ends); `latest` is the end when the query starts or restarts.",
    ),
    SourceOption(
        "endingTimestamp",
        "none",
        Scope.BOTH,
        _TIMES,
        "Reading ends before the first message appended then or later. Instead of `endingOffsets`. A stream with a "
        "time to come reads on until there is such a message in each partition.",
    ),
    SourceOption(
        "maxRowsPerTrigger",
        "none",
        Scope.STREAM,
        "a number of rows, at least 1",
        "The most rows in a batch, shared among partitions in proportion to the rows that each has to read.",
    ),
    SourceOption(
        "maxBytesPerTrigger",
        "none",
        Scope.STREAM,
        "a size, as in 64MiB or 1000000",
        "The most bytes in a batch, shared likewise. A row counts as the average size of a message of its partition on "
        "the Broker's disk. At least one row is taken. Needs pytubemq Brokers.",
    ),
    SourceOption(
        "minRowsPerTrigger",
        "none",
        Scope.STREAM,
        "a number of rows, at least 1",
        "No batch begins while fewer rows wait, unless `maxTriggerDelay` has passed. It does not apply to "
        "`availableNow` and `once`.",
    ),
    SourceOption(
        "maxTriggerDelay",
        "`15m`",
        Scope.STREAM,
        "a duration, as in 30s or 15m",
        "The longest time that `minRowsPerTrigger` may hold rows back, counted from the last batch.",
    ),
    SourceOption(
        "maxFetchTimePerTask",
        "none",
        Scope.STREAM,
        "a duration, as in 30s or 15m",
        "The approximate time that a task may fetch. The size of a batch is estimated from the time that earlier ones "
        "took from plan to end; the first batches have 50,000 rows for each partition. Choose at least the "
        "trigger's interval.",
    ),
    SourceOption(
        "slowPartitionAdjustment",
        "`false`",
        Scope.STREAM,
        "true or false",
        "A partition that takes over three times as long for a row as the median, and kept a task busy for half "
        "a second or more, gets no more rows in a batch than it delivers while the others are read, or in a second. "
        "Tasks report their durations to the driver by datagrams to a UDP port of the address with which the driver "
        "reaches the Masters; if these do not arrive, nothing is adjusted.",
    ),
    SourceOption(
        "maxRecordsPerTask",
        "none",
        Scope.BOTH,
        "a number of rows, at least 1",
        "Splits what a batch reads of one partition into tasks of at most so many rows. Java Brokers' partitions are "
        "not split. A batch that would have more than 100,000 tasks is refused.",
    ),
    SourceOption(
        "minPartitions",
        "none",
        Scope.BOTH,
        "a number of tasks, at least 1",
        "Splits ranges, large ones more, until there are as many tasks, if there are rows for them. Java Brokers' "
        "partitions are not split.",
    ),
    SourceOption(
        "filters",
        "none",
        Scope.BOTH,
        "message types, separated by commas",
        "Reads only messages of these types (`msgType`); the Broker skips the others. Limits and lag count them "
        "all the same. Needs pytubemq Brokers.",
    ),
    SourceOption(
        "commitGroup",
        "none",
        Scope.STREAM,
        "the name of a group that nobody else uses",
        "Stores the query's progress as this group's committed offsets at the Brokers, so that `pytubemq group show` "
        "shows the lag. Recovery uses only the checkpoint.",
    ),
    SourceOption(
        "failOnDataLoss",
        "`true`",
        Scope.BOTH,
        "true, false or report",
        "The effect of rows that the batch needs and that were deleted at the Broker, or are damaged there: the query "
        "fails (`true`), goes on with the remaining rows and logs the hole (`false`), or also writes it to "
        "`lossDirectory` (`report`).",
    ),
    SourceOption(
        "lossDirectory",
        "none",
        Scope.BOTH,
        "a directory, as a path or a URI that driver and executors reach",
        "The directory to which `report` writes one JSON file for each hole.",
    ),
    SourceOption(
        "columns",
        "all but `messageId`",
        Scope.BOTH,
        "some of the columns, each once, separated by commas",
        "The columns to read, in this order. A Python source cannot know which columns a query needs, so leaving out "
        "`attributes` and `body` where they are not needed saves time.",
    ),
    SourceOption(
        "timeZone",
        "`UTC`",
        Scope.BOTH,
        "an IANA name, as in UTC or Asia/Shanghai",
        "The zone of the clock that `msgTime` was written by, and of times in options that name none.",
    ),
    SourceOption(
        "decode",
        "none",
        Scope.BOTH,
        "a format of messages",
        "Returns the columns of decoded messages instead of the raw ones: see the page on decoding.",
    ),
    SourceOption(
        "decode.*",
        "of the format",
        Scope.BOTH,
        "what the format takes",
        "The decoder's own options: `decode.schema`, `decode.inner`, `decode.columns`, `decode.errors` and others.",
    ),
    SourceOption(
        "dedup",
        "`false`",
        Scope.BOTH,
        "true or false",
        "Drops duplicates of messages that the sink wrote in its idempotent mode.",
    ),
    SourceOption(
        "dedupLookBack",
        "`100000`",
        Scope.BOTH,
        "a number of rows, at least 1",
        "The rows that `dedup` looks back over before the first row of a task. At a Java Broker the rows of all "
        "partitions that share a store count.",
    ),
    SourceOption(
        "readGroup",
        "derived from the read",
        Scope.BOTH,
        "the name of a group that nobody else uses",
        "Java Brokers only: the group to read with, where the cluster admits only groups that it knows. Otherwise "
        "names are derived and nothing is ever confirmed with them.",
    ),
    SourceOption(
        "javaReads",
        "`all`",
        Scope.BOTH,
        "all or flushed",
        "Java Brokers only: `flushed` reads what a Broker has flushed to its disk, which a hard kill does not take "
        "back; quiet topics come up to a minute later. `all` reads as fast as Java's consumers do.",
    ),
    SourceOption(
        "tlsCa",
        "none: no TLS",
        Scope.BOTH,
        FILE,
        "The CAs that signed the servers' certificates. With it all connections are over TLS.",
    ),
    SourceOption("tlsCert", "none", Scope.BOTH, FILE, "The certificate of this client, for servers that demand one."),
    SourceOption("tlsKey", "in `tlsCert`", Scope.BOTH, FILE, "The private key of `tlsCert`."),
    SourceOption(
        "tlsServerName",
        "the host connected to",
        Scope.BOTH,
        "a name",
        "The name that the certificates of all servers must have.",
    ),
    SourceOption(USER, "the environment's", Scope.BOTH, "the name of a user", USER_DOC),
    SourceOption(SECRET_FILE, "needed with `user`", Scope.BOTH, DRIVERS_FILE, SECRET_FILE_DOC),
)
"""In the order of the documentation."""

BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
"""By lower-case name."""


def takes(name: str) -> str:
    """Return the value that an option takes."""
    return BY_NAME[name.lower()].takes
