"""Every error that this package raises on purpose: the protocol's codes, one tree, and the exit codes of the CLI.

    TubeError                        code, retriable, hint, remote
    ├── ConfigError                  a setting, a file or an option is wrong
    │   └── MissingExtraError        a part that is not installed is needed
    ├── WireError                    bytes that are not the protocol
    │   ├── FrameError               a fault in a frame: the connection cannot go on
    │   ├── EnvelopeError            a fault in the envelope or the message: this request cannot, the connection can
    │   └── FormatError              a string micro-format (partition key, attributes, ...) is malformed
    ├── TransportError               the peer was not reached or went away
    │   ├── UnreachableError         no connection could be opened
    │   │   └── TlsError             no TLS connection: a certificate, its name, or a port that speaks no TLS
    │   ├── ConnectionLostError      the connection broke before the response arrived
    │   └── RequestTimeoutError      no response within the request's time
    ├── RemoteError                  the peer responded with an exception
    │   └── StandbyError             this Master does not lead
    ├── RefusedError                 the peer responded with a code other than 200
    │   ├── BadRequestError          400   ├── NotAllowedError        401, 403, 415, 450, 455
    │   ├── NotFoundError            404, 431, 443, 444: topic, partition or group
    │   ├── OffsetMovedError         301   ├── NotRegisteredError     411, 412
    │   ├── OccupiedError            410   ├── ServerOverflowError    419
    │   ├── GroupMismatchError       424 to 430
    │   ├── ThrottledError      421, 452   ├── UnavailableError       422, 500, 503
    │   │                                  │   └── UntoldError        503: only a peer that is away knows
    │   └── AlreadyExistsError       the name is in use
    ├── MessageError                 a message cannot be sent as it is: empty (442), too long (445), bad attribute
    ├── PartialSendError             of messages sent together some were delivered and some were not
    ├── SubmitError                  submitted messages were not delivered, and nobody had asked for their futures
    ├── StaleBatchError              a batch is no longer the consumer's: settled, returned or revoked
    ├── BufferFullError              the producer's buffer has no room: backpressure, retry after `room()`
    ├── ClosedError                  used after close
    ├── ForkedError                  used in a forked child
    └── StorageError                 the disk, or the files on it
        ├── DiskFullError            no space; service returns when there is some
        ├── OutOfResourcesError      no file handle or memory for a file; service returns when there is some
        ├── DiskFailedError          a write or a flush failed; nothing more is accepted
        ├── CorruptError             bytes on disk fail their check
        ├── NewerVersionError        a file was written by a newer version; it is not changed
        ├── OlderVersionError        a file was written by a version too old to be read; it is not changed
        ├── DirectoryLockedError     another process uses the directory
        ├── DatabaseUnreachableError the database of the metadata is away
        ├── DatabaseReadOnlyError    the database accepts no changes now
        ├── DatabaseTimeoutError     the database did not respond in time
        └── FencedError              another Master leads: this one's writes are refused

`remote` is true for the peer's fault, `retriable` if the same call may succeed later.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@unique
class Code(IntEnum):
    """The protocol's result codes (the original's names)."""

    SUCCESS = 200
    NOT_READY = 201
    MOVED = 301
    BAD_REQUEST = 400
    UNAUTHORIZED = 401
    CONNECT_RETURN_NULL = 402
    FORBIDDEN = 403
    NOT_FOUND = 404
    ALL_PARTITION_FROZEN = 405
    NO_PARTITION_ASSIGNED = 406
    ALL_PARTITION_WAITING = 407
    ALL_PARTITION_INUSE = 408
    PARTITION_OCCUPIED = 410
    HB_NO_NODE = 411
    DUPLICATE_PARTITION = 412
    CERTIFICATE_FAILURE = 415
    SERVER_RECEIVE_OVERFLOW = 419
    CLIENT_SHUTDOWN = 420
    CLIENT_HIGH_FREQUENCY_REQUEST = 421
    PARTITION_UNSUBSCRIBABLE = 422
    PARTITION_UNPUBLISHABLE = 423
    CLIENT_INCONSISTENT_CONSUMETYPE = 424
    CLIENT_INCONSISTENT_TOPICSET = 425
    CLIENT_INCONSISTENT_FILTERSET = 426
    CLIENT_INCONSISTENT_SESSIONKEY = 427
    CLIENT_INCONSISTENT_SELECTBIG = 428
    CLIENT_INCONSISTENT_SOURCECOUNT = 429
    CLIENT_DUPLICATE_INDEXID = 430
    TOPIC_NOT_DEPLOYED = 431
    PARAMETER_MSG_NULL = 440
    PARAMETER_TOPIC_NULL = 441
    PARAMETER_BODY_NULL = 442
    TOPIC_NOT_PUBLISHED = 443
    NO_PARTITION_AVAILABLE = 444
    MSG_OVER_MAX_LENGTH = 445
    CONSUME_GROUP_FORBIDDEN = 450
    SERVER_CONSUME_SPEED_LIMIT = 452
    CONSUME_CONTENT_FORBIDDEN = 455
    INTERNAL_SERVER_ERROR = 500
    SERVICE_UNAVAILABLE = 503
    SERVER_MSGSET_NULL = 510
    UNSPECIFIED_ABNORMAL = 599


@unique
class ExitCode(IntEnum):
    """The exit codes of commands; scripts rely on them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNREACHABLE = 5
    UNHEALTHY = 10
    DIFFERENT = 11
    BAD_CONFIG = 78
    INTERRUPTED = 130


class TubeError(Exception):
    """The root. `str(error)` is one to three lines: the thing and its fault, and what to do (`hint`)."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    retriable: bool = False
    remote: bool = False
    code: int | None = None

    def __init__(self, message: str, *, hint: str | None = None, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = int(code)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


def one_line(error: BaseException) -> str:
    """Return the text of an error with its hint in a single line, for logs and health."""
    return "; ".join(line for line in str(error).splitlines() if line)


class ConfigError(TubeError):
    """A setting, a file or an option is wrong."""

    exit_code = ExitCode.BAD_CONFIG


class MissingExtraError(ConfigError):
    """A part of pytubemq that is an extra is needed and not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the extra [{extra}], which is not installed",
            hint=f"in the checkout that it was installed from:  pip install '.[{extra}]'",
        )
        self.extra = extra


class WireError(TubeError):
    """Bytes that are not the protocol."""

    remote = True


class FrameError(WireError):
    """A fault in a frame; the stream cannot be re-synchronised, so the connection must be closed."""


class EnvelopeError(WireError):
    """A fault in the envelope or in the message inside; the frame was sound, the connection stays usable.

    `exception_name` and `text` are for the response's `RspExceptionBody`; `fatal` picks its status.
    """

    def __init__(self, text: str, *, exception_name: str, fatal: bool = True) -> None:
        super().__init__(text)
        self.exception_name = exception_name
        self.text = text
        self.fatal = fatal


class FormatError(WireError):
    """A string micro-format is malformed."""


class TransportError(TubeError):
    """The peer was not reached or went away."""

    retriable = True
    exit_code = ExitCode.UNREACHABLE


class UnreachableError(TransportError):
    """No connection could be opened."""


class TlsError(UnreachableError):
    """No TLS connection could be made: a certificate was refused, here or by the peer, or the port speaks no TLS.

    Another try would end the same way, until somebody changes a certificate or a setting."""

    retriable = False


class ConnectionLostError(TransportError):
    """The connection broke before the response arrived: whether the peer did the work is unknown."""


class RequestTimeoutError(TransportError):
    """No response within the request's time: whether the peer did the work is unknown."""


class RemoteError(TubeError):
    """The peer responded with an exception; `exception_name` is text from the peer and is never acted upon."""

    remote = True

    def __init__(self, message: str, *, exception_name: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exception_name = exception_name

    @property
    def at_work(self) -> bool:
        """True if the peer accepted the request and failed while it worked on it: a retry may succeed."""
        return self.exception_name.endswith("InvocationTargetException")


class StandbyError(RemoteError):
    """This Master does not lead; ask the next one."""

    retriable = True


class RefusedError(TubeError):
    """The peer responded with a code other than 200. `refused(code, text)` picks the class."""

    remote = True
    exit_code = ExitCode.REFUSED


class BadRequestError(RefusedError):
    """400: the peer says a parameter is wrong."""


class NotAllowedError(RefusedError):
    """401, 403, 415, 450, 455."""


class NotFoundError(RefusedError):
    """404, 431, 443, 444: no such topic, partition, group or offset."""

    exit_code = ExitCode.NOT_FOUND


class OffsetMovedError(RefusedError):
    """301: the offset is below the first stored message."""


class OccupiedError(RefusedError):
    """410: another consumer of the group holds the partition."""

    retriable = True


class NotRegisteredError(RefusedError):
    """411, 412: the peer does not know this client; register again."""

    retriable = True


class ServerOverflowError(RefusedError):
    """419: the Broker could not accept the message (full, or behind); retry later."""

    retriable = True


class GroupMismatchError(RefusedError):
    """424 to 430: this consumer differs from the members of its group."""


class ThrottledError(RefusedError):
    """421, 452: too many requests, flow control."""

    retriable = True


class UnavailableError(RefusedError):
    """422, 500, 503: the peer cannot serve now, or not this partition."""

    retriable = True


class UntoldError(UnavailableError):
    """503: the result may be known to a peer that cannot be queried now."""

    exit_code = ExitCode.UNREACHABLE


class AlreadyExistsError(RefusedError):
    """The name is in use already."""


class MessageError(TubeError):
    """A message cannot be sent as it is: empty (442), too long (445), a bad attribute (400)."""


class PartialSendError(TubeError):
    """Some of the messages that were sent together were delivered and some were not.

    `failed` has the errors by message position; `receipts` has the receipts of the others by position, and None where
    there is none.
    """

    def __init__(self, message: str, *, receipts: Sequence[Any], failed: Mapping[int, TubeError]) -> None:
        first = next(iter(failed.values()))
        super().__init__(message, hint=first.hint, code=first.code)
        self.receipts = receipts
        self.failed = failed
        self.retriable = all(error.retriable for error in failed.values())


class SubmitError(TubeError):
    """Messages that were submitted were not delivered, and nobody had asked for the outcome of their futures.

    `messages` is their number; `__cause__` is the first error, whose code and hint this one has.
    """

    def __init__(self, messages: int, first: TubeError) -> None:
        what = "a submitted message was" if messages == 1 else f"{messages} submitted messages were"
        super().__init__(f"{what} not delivered: {first.message}", hint=first.hint, code=first.code)
        self.messages = messages
        self.retriable = first.retriable
        self.__cause__ = first


class StaleBatchError(TubeError):
    """A batch is no longer the consumer's, so it cannot be confirmed or rejected: unconfirmed messages come again."""


class BufferFullError(TubeError):
    """The producer's buffer has no room for another message; await `room()` or `flush()`, or use `send`."""

    retriable = True


class ClosedError(TubeError):
    """Used after close."""

    code = Code.CLIENT_SHUTDOWN


class ForkedError(TubeError):
    """Used in a forked child; connect again there."""


class StorageError(TubeError):
    """The disk, or the files on it."""


class DiskFullError(StorageError):
    """No space left; service resumes automatically when there is some."""

    retriable = True


class OutOfResourcesError(StorageError):
    """The system has no handle or memory for one more file; nothing was changed, and service resumes automatically."""

    retriable = True


class DiskFailedError(StorageError):
    """A write or a flush failed, so the content of the disk is unknown: nothing more is accepted until a restart."""


class CorruptError(StorageError):
    """Bytes on disk fail their check."""


class NewerVersionError(StorageError):
    """A file was written by a newer version; it is not changed."""


class OlderVersionError(StorageError):
    """A file was written by a version that this one cannot read any more; it is not changed."""


class DirectoryLockedError(StorageError):
    """Another process uses the directory."""

    exit_code = ExitCode.REFUSED


class DatabaseUnreachableError(StorageError):
    """The database of the metadata is away, or the connection to it broke."""

    exit_code = ExitCode.UNREACHABLE
    retriable = True


class DatabaseReadOnlyError(StorageError):
    """The database accepts no changes now: it is a replica, or an operator has closed it for writing."""

    retriable = True


class DatabaseTimeoutError(StorageError):
    """The database did not respond in time; unless the text says otherwise, nothing was changed."""

    retriable = True


class FencedError(StorageError):
    """This Master does not lead, or no longer leads: its writes are refused.

    Nothing was changed, unless the text says so.
    """

    exit_code = ExitCode.REFUSED


_BY_CODE: dict[int, type[RefusedError]] = {
    Code.MOVED: OffsetMovedError,
    Code.BAD_REQUEST: BadRequestError,
    Code.UNAUTHORIZED: NotAllowedError,
    Code.FORBIDDEN: NotAllowedError,
    Code.CERTIFICATE_FAILURE: NotAllowedError,
    Code.CONSUME_GROUP_FORBIDDEN: NotAllowedError,
    Code.CONSUME_CONTENT_FORBIDDEN: NotAllowedError,
    Code.NOT_FOUND: NotFoundError,
    Code.TOPIC_NOT_DEPLOYED: NotFoundError,
    Code.TOPIC_NOT_PUBLISHED: NotFoundError,
    Code.NO_PARTITION_AVAILABLE: NotFoundError,
    Code.PARTITION_OCCUPIED: OccupiedError,
    Code.HB_NO_NODE: NotRegisteredError,
    Code.DUPLICATE_PARTITION: NotRegisteredError,
    Code.SERVER_RECEIVE_OVERFLOW: ServerOverflowError,
    Code.CLIENT_INCONSISTENT_CONSUMETYPE: GroupMismatchError,
    Code.CLIENT_INCONSISTENT_TOPICSET: GroupMismatchError,
    Code.CLIENT_INCONSISTENT_FILTERSET: GroupMismatchError,
    Code.CLIENT_INCONSISTENT_SESSIONKEY: GroupMismatchError,
    Code.CLIENT_INCONSISTENT_SELECTBIG: GroupMismatchError,
    Code.CLIENT_INCONSISTENT_SOURCECOUNT: GroupMismatchError,
    Code.CLIENT_DUPLICATE_INDEXID: GroupMismatchError,
    Code.CLIENT_HIGH_FREQUENCY_REQUEST: ThrottledError,
    Code.SERVER_CONSUME_SPEED_LIMIT: ThrottledError,
    Code.PARTITION_UNSUBSCRIBABLE: UnavailableError,
    Code.INTERNAL_SERVER_ERROR: UnavailableError,
    Code.SERVICE_UNAVAILABLE: UnavailableError,
}


def refused(code: int, text: str, *, hint: str | None = None) -> RefusedError:
    """Return the error for a business code from a peer's response."""
    said = text if text.strip() else f"refused with code {code}"
    return _BY_CODE.get(code, RefusedError)(said, hint=hint, code=code)
