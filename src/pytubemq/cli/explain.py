"""The meaning of each error code and its remedy, as data.

The invariant: every code of the protocol and every class of local error is here (a test compares).
"""

from __future__ import annotations

from typing import NamedTuple

from pytubemq.cli.failures import class_code
from pytubemq.errors import Code, ExitCode, RefusedError, TubeError, refused


class Explanation(NamedTuple):
    """The explanation of one code."""

    code: str
    name: str
    meaning: str
    remedy: str
    retriable: bool
    exit: int


_PROTOCOL: dict[Code, tuple[str, str]] = {
    Code.SUCCESS: ("done", "nothing to do"),
    Code.NOT_READY: ("the peer is starting", "wait a moment and retry"),
    Code.MOVED: ("the offset is below the first stored message", "read from --from earliest"),
    Code.BAD_REQUEST: ("a parameter is missing or wrong; the message names it", "correct it"),
    Code.UNAUTHORIZED: (
        "the caller is not known, or is a user that lacks the permission in the message",
        "check the user and the token, or have the permission granted: pytubemq permission grant",
    ),
    Code.CONNECT_RETURN_NULL: ("no connection to the peer", "check: pytubemq cluster health"),
    Code.FORBIDDEN: (
        "the caller may not do this", "have the permission granted that the message names: pytubemq permission grant"
    ),
    Code.NOT_FOUND: (
        "it does not exist, or there is no message yet", "see the names: pytubemq topic list, pytubemq group list"
    ),
    Code.ALL_PARTITION_FROZEN: ("this consumer has frozen all its partitions", "unfreeze one"),
    Code.NO_PARTITION_ASSIGNED: (
        "the consumer has no partition: its group has more members than the topics have partitions, or it just joined",
        "wait for the balance, or stop a member",
    ),
    Code.ALL_PARTITION_WAITING: ("all partitions wait for new messages", "nothing to do; messages come when "
        "there are some"),
    Code.ALL_PARTITION_INUSE: ("a batch of each partition is unconfirmed", "confirm or reject the batches in hand"),
    Code.PARTITION_OCCUPIED: (
        "the partition is assigned to another consumer of the group",
        "wait until it releases the partition, or read without a group: pytubemq consume TOPIC",
    ),
    Code.HB_NO_NODE: ("the server does not know this client any more", "register again; our clients do so "
        "automatically"),
    Code.DUPLICATE_PARTITION: ("the partition is registered twice by one client", "use a new client"),
    Code.CERTIFICATE_FAILURE: (
        "the caller names no user, or its user, secret or token is not accepted",
        "name a user with --user NAME --secret-file FILE, or with PYTUBEMQ_USER and PYTUBEMQ_SECRET_FILE; check that "
        "it is enabled and the secret its last one: pytubemq user list",
    ),
    Code.SERVER_RECEIVE_OVERFLOW: (
        "the Broker cannot take the message now: its buffer or its disk is full",
        "retry later; check the free space on the Broker's disk",
    ),
    Code.CLIENT_SHUTDOWN: ("the client was closed", "use it inside its `with` block"),
    Code.CLIENT_HIGH_FREQUENCY_REQUEST: ("the client sends requests too often", "send fewer requests"),
    Code.PARTITION_UNSUBSCRIBABLE: ("the partition may not be consumed", "set the topic to accept consumers"),
    Code.PARTITION_UNPUBLISHABLE: ("the partition may not be written", "set the topic to accept producers"),
    Code.CLIENT_INCONSISTENT_CONSUMETYPE: (
        "the group's members balance in different ways (server-balanced, client-balanced)",
        "use one way in a group, or another group",
    ),
    Code.CLIENT_INCONSISTENT_TOPICSET: (
        "the group's members name different topics", "give all members the same topics, or use another group"
    ),
    Code.CLIENT_INCONSISTENT_FILTERSET: (
        "the group's members name different filters", "give all members the same filters, or use another group"
    ),
    Code.CLIENT_INCONSISTENT_SESSIONKEY: (
        "the group's members have different session keys", "give all members the same session key"
    ),
    Code.CLIENT_INCONSISTENT_SELECTBIG: (
        "the group's members disagree on how to choose a start offset", "give all members the same setting"
    ),
    Code.CLIENT_INCONSISTENT_SOURCECOUNT: (
        "the group's members name different source counts", "give all members the same source count"
    ),
    Code.CLIENT_DUPLICATE_INDEXID: ("two members have the same node id", "give each member its own"),
    Code.TOPIC_NOT_DEPLOYED: (
        "the topic does not exist, or no Broker serves it now",
        "see the topics: pytubemq topic list; create one: pytubemq topic create TOPIC",
    ),
    Code.PARAMETER_MSG_NULL: ("there is no message", "give one"),
    Code.PARAMETER_TOPIC_NULL: ("there is no topic in the message", "name one"),
    Code.PARAMETER_BODY_NULL: ("a message has an empty body", "send at least one byte; the protocol has no empty body"),
    Code.TOPIC_NOT_PUBLISHED: ("the producer has not published the topic", "create a producer for the topic first"),
    Code.NO_PARTITION_AVAILABLE: (
        "no partition of the topic can be written now",
        "check the reasons, Broker by Broker: pytubemq topic show TOPIC",
    ),
    Code.MSG_OVER_MAX_LENGTH: (
        "the message is longer than the topic allows",
        "split it, or have the topic take more: pytubemq topic alter TOPIC --max-message-size BYTES",
    ),
    Code.CONSUME_GROUP_FORBIDDEN: (
        "the group may not consume the topic, or its user lacks the permission in the message",
        "have the permission granted: pytubemq permission grant; or check the reason: pytubemq group show GROUP "
        "--topic TOPIC; an administrator can allow it, see docs/how-to/control-groups.md",
    ),
    Code.SERVER_CONSUME_SPEED_LIMIT: ("flow control slows the group down", "nothing to do; it continues automatically"),
    Code.CONSUME_CONTENT_FORBIDDEN: (
        "the group may consume the topic only by the filter items that it is allowed",
        "filter by some of them: --type ITEM; an administrator allows more, see docs/how-to/control-groups.md",
    ),
    Code.INTERNAL_SERVER_ERROR: ("the server failed at the request", "check its log; retry"),
    Code.SERVICE_UNAVAILABLE: ("the server cannot serve now: it starts, stops or lost its disk", "retry later"),
    Code.SERVER_MSGSET_NULL: ("a response had no messages", "nothing to do; fetch again"),
    Code.UNSPECIFIED_ABNORMAL: ("something failed that has no code of its own", "check the server's log"),
}  # fmt: skip

_LOCAL: dict[str, str] = {
    "config": "correct the setting that the message names; all settings:  pytubemq server settings",
    "missing-extra": "install the extra that the message names",
    "wire": "check that the other side speaks TubeMQ's protocol on this port",
    "frame": "check that the other side speaks TubeMQ's protocol on this port",
    "envelope": "check the versions of both sides",
    "format": "write it as the message says",
    "transport": "check the network and the peer: pytubemq cluster health",
    "unreachable": "check the address; start a cluster on this machine: pytubemq dev",
    "tls": "renew the certificate, name its CA, or give the port that speaks TLS (docs/how-to/tls.md)",
    "connection-lost": "retry: it is unknown whether the peer did the work",
    "request-timeout": "retry, or allow more time: --timeout",
    "remote": "check the peer's log",
    "standby": "name all Masters, so that the client finds the one that leads",
    "message": "change the message as the text says",
    "partial-send": "send those again that `failed` names; the others have their receipts",
    "submit": "ask the future of each submitted message for its outcome, or use `send`; the cause says what failed",
    "stale-batch": "settle each batch once, and in time; it is delivered again automatically",
    "buffer-full": "wait for `room()` or `flush()`, or produce more slowly",
    "closed": "use it inside its `with` block",
    "forked": "connect in the child process",
    "storage": "check the disk and the directory that the message names",
    "disk-full": "free some space on the disk; service resumes automatically",
    "out-of-resources": "raise the limit of open files (ulimit -n) or free memory; service resumes automatically",
    "disk-failed": "check the disk, then restart the Broker: it recovers what was acknowledged",
    "corrupt": "stop the Broker and run `pytubemq store repair` on its directory, or restore the file from a copy",
    "newer-version": "run the newer version of pytubemq that wrote it",
    "older-version": "start with an empty directory, or read the file with the version that wrote it",
    "directory-locked": "stop the other process, or choose another directory with --data",
    "database-unreachable": "check that the database of master.store runs and can be reached; changes work again then",
    "database-read-only": "name the primary database in master.store, or open the database for writing",
    "database-timeout": "retry; if it stays so, check the load of the database of master.store",
    "fenced": "ask the Master that leads; the one that was asked ends, and stands by when it is started again",
}


def explanations() -> dict[str, Explanation]:
    """Return all explanations by code."""
    found = {}
    for code, (meaning, remedy) in _PROTOCOL.items():
        error = refused(code, "")
        found[str(int(code))] = Explanation(
            str(int(code)), code.name, meaning, remedy, error.retriable, int(error.exit_code if code != 200 else 0)
        )
    for kind in local_errors():
        code_text = class_code(kind)
        meaning = (kind.__doc__ or "").strip().splitlines()[0].rstrip(".")
        found[code_text] = Explanation(
            code_text, kind.__name__, meaning, _LOCAL[code_text], kind.retriable, int(kind.exit_code)
        )
    found |= _of_pipeline_files()
    found["usage"] = Explanation(
        "usage", "UsageError", "the command line is not understood", "see the command's --help", False, ExitCode.USAGE
    )
    return found


def _of_pipeline_files() -> dict[str, Explanation]:
    """Return the codes of `pipeline lint`, and the error of a command with a faulty file."""
    from pytubemq.pipelines import FAULT_MEANINGS, PipelineFileError, Severity, severity_of

    found = {
        code.value.lower(): Explanation(
            code.value, said.name, said.meaning, said.remedy, False,
            int(ExitCode.BAD_CONFIG if severity_of(code) is Severity.ERROR else ExitCode.DONE),
        )
        for code, said in FAULT_MEANINGS.items()
    }  # fmt: skip
    name = class_code(PipelineFileError)
    found[name] = Explanation(
        name, PipelineFileError.__name__, "a pipeline file has errors", "see all of them: pytubemq pipeline lint FILE",
        False, int(ExitCode.BAD_CONFIG),
    )  # fmt: skip
    return found


def local_errors() -> list[type[TubeError]]:
    """Return every error class that has no number of the protocol."""
    found: list[type[TubeError]] = []
    pending = list(TubeError.__subclasses__())
    while pending:
        kind = pending.pop(0)
        if issubclass(kind, RefusedError) or kind.__module__ != TubeError.__module__:
            continue
        found.append(kind)
        pending[:0] = kind.__subclasses__()
    return found
