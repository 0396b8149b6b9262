"""The sink's options as one table: the parser, its messages and the reference page are made from it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from pytubemq.spark.cluster_option import DRIVERS_FILE, FILE, SECRET_FILE, SECRET_FILE_DOC, USER, USER_DOC
from pytubemq.spark.sink.encode import OPTIONS as ENCODE_OPTIONS

Where = Literal["both", "batch"]


class SinkOption(NamedTuple):
    """One option; a name that ends in `.*` stands for all that begin so."""

    name: str
    default: str
    where: Where
    takes: str
    doc: str


OPTIONS: Final = (
    SinkOption(
        "master",
        "needed",
        "both",
        'the Master\'s address, "host:port" (several: "host1:8715,host2:8715")',
        "The Masters of the cluster. Over TLS, `tls://host:port?ca=FILE` is the same as `tlsCa` beside it.",
    ),
    SinkOption(
        "topic",
        "the column `topic`",
        "both",
        "the name of a topic",
        "The topic of all rows. It overrides the column `topic`, as the option of Spark's Kafka sink does.",
    ),
    SinkOption(
        "msgType",
        "the column `msgType`",
        "both",
        "a message type",
        "The type of all messages, by which consumers filter. It overrides the column `msgType`.",
    ),
    SinkOption(
        "timeZone",
        "UTC",
        "both",
        "an IANA name, as in UTC or Asia/Shanghai",
        "The clock that `msgTime` is written by, if the column is a timestamp.",
    ),
    SinkOption(
        "deliveryTimeout",
        "60s",
        "both",
        "a time from 1s to 1h, as in 30s or 2m",
        "The time for which one message is tried before the task fails.",
    ),
    SinkOption(
        "maxBufferBytes",
        "64MiB",
        "both",
        "a size from 4MiB to 1GiB, or a number of bytes",
        "The most bytes that one task has sent without an acknowledgement.",
    ),
    SinkOption(
        "idempotent",
        "false",
        "both",
        "true or false",
        "Mark every message so that duplicates can be detected. Needs an idempotency key column or "
        "`planIsMapOnly=true`.",
    ),
    SinkOption(
        "idempotencyKey",
        "`idempotencyKey`, if there is such a column",
        "both",
        "the name of a column (text, binary or a whole number)",
        "The column that identifies the rows of a batch. It is not sent; its hash is.",
    ),
    SinkOption(
        "planIsMapOnly",
        "false",
        "both",
        "true or false",
        "An assurance that a replayed batch has the same rows in the same order in the same Spark partitions. Rows are "
        "then identified by their number.",
    ),
    SinkOption(
        "queryId",
        "one of its own for each write",
        "batch",
        "a text",
        "Names a series of batch writes with `idempotent=true`: a repeated write is recognized. A stream "
        "has an id of its own.",
    ),
    SinkOption(
        "batchId",
        "0",
        "batch",
        "a number from 0 to 2147483647",
        "The number of the write in the series `queryId`. The numbers rise: once a newer one was seen, an older one "
        "is refused.",
    ),
    SinkOption(
        "checkpointLocation",
        "none",
        "batch",
        "a path or URI: the checkpoint of the query whose `foreachBatch` writes, `batchId` being its batch's",
        "The topic's partitions are stored there (`tubemq-sink.json`), so that a repeated batch is divided over those "
        "of its first try, even if the topic has more by then. A stream keeps them in its own, which Spark takes by "
        "this same option; with `idempotent=true` it has to be named so, and not by "
        "`spark.sql.streaming.checkpointLocation` alone, which Spark does not hand to a sink.",
    ),
    SinkOption(
        "encode",
        "none",
        "both",
        "inlong-msg",
        "Wrap each body into an InLongMsg message of its own. Its `dt` is `msgTime`, or else the current time; with "
        "`idempotent=true` by number the column `msgTime` has to be there.",
    ),
    SinkOption(
        "encode.*",
        "none",
        "both",
        "; ".join(f"encode.{name}: {takes}" for name, takes in ENCODE_OPTIONS.items()),
        "Options of the encoder.",
    ),
    SinkOption(
        "tlsCa",
        "none: no TLS",
        "both",
        FILE,
        "The CAs that signed the servers' certificates. With it all connections are over TLS.",
    ),
    SinkOption("tlsCert", "none", "both", FILE, "The certificate of this client, for servers that demand one."),
    SinkOption("tlsKey", "in `tlsCert`", "both", FILE, "The private key of `tlsCert`."),
    SinkOption(
        "tlsServerName",
        "the host connected to",
        "both",
        "a name",
        "The name that the certificates of all servers must have.",
    ),
    SinkOption(USER, "the environment's", "both", "the name of a user", USER_DOC),
    SinkOption(SECRET_FILE, "needed with `user`", "both", DRIVERS_FILE, SECRET_FILE_DOC),
)
