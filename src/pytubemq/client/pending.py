"""A message between `submit` and its receipt, and the checks and the encoding at its start.

The invariant: what passes these checks is something every Broker takes; what does not never reaches the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from pytubemq.errors import (
    Code,
    MessageError,
    NotFoundError,
    RefusedError,
    RemoteError,
    RequestTimeoutError,
    TransportError,
    TubeError,
    refused,
)
from pytubemq.model.ids import Partition
from pytubemq.model.limits import MAX_MESSAGE_BYTES
from pytubemq.wire.payload import encode_payload

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from pytubemq.client.bunch import Bunch
    from pytubemq.client.parcel import Parcel
    from pytubemq.model.message import Receipt

    Unit: TypeAlias = "Pending | Bunch | Parcel"
    """What a lane carries: one message, several that came one behind the other, or a pack that was submitted as one."""

MSG_TIME_FORMAT = "%Y%m%d%H%M"
_MOST_NAMED = 5
"""Partitions in one error; the others are counted."""

Body: TypeAlias = bytes | bytearray | memoryview
"""What a message may be made of; anything else but bytes is copied."""

Encoded: TypeAlias = tuple[bytes, int, str | None, str | None]
"""Payload, flag, message type, message time."""


class Pending:
    """One message on its way. `route` is None (any partition), a key, or the partition that was asked for."""

    __slots__ = (
        "cause",
        "deadline_s",
        "flag",
        "future",
        "msg_time",
        "msg_type",
        "order",
        "partition",
        "payload",
        "route",
        "sequence",
        "size_bytes",
        "tries",
        "uncertain",
    )
    count: Final = 1

    def __init__(
        self,
        encoded: Encoded,
        future: asyncio.Future[Receipt],
        partition: Partition,
        route: bytes | Partition | None,
        deadline_s: float,
        order: int,
    ) -> None:
        self.payload, self.flag, self.msg_type, self.msg_time = encoded
        self.size_bytes = len(self.payload)
        self.future = future
        self.partition = partition
        self.route = route
        self.deadline_s = deadline_s
        self.order = order
        self.sequence: int | None = None
        """Its number among this producer's messages of the partition, from when it first leaves."""
        self.tries = 0
        self.cause: BaseException | None = None
        self.uncertain = False
        """Whether it was sent and nobody knows what became of it: its Broker may have it."""

    @property
    def may_move(self) -> bool:
        """Whether any partition will do."""
        return self.route is None

    @property
    def unwanted(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.future.done()

    def fail(self, error: TubeError) -> int:
        """It ends with `error`; 0 if nobody waits for it any more, else 1."""
        if self.future.done():
            return 0
        self.future.set_exception(error)
        return 1


def check_body(body: Body, max_bytes: int) -> bytes:
    """The body as bytes.

    Raises:
        MessageError: not bytes, empty (442) or longer than the topic allows (445).
    """
    if type(body) is not bytes:
        if not isinstance(body, (bytes, bytearray, memoryview)):
            raise MessageError(
                f"a message body is bytes, not {type(body).__name__}",
                hint="encode it first, for example text.encode()",
                code=Code.BAD_REQUEST,
            )
        body = bytes(body)
    if not body:
        raise MessageError("the message body is empty", hint="send at least one byte", code=Code.PARAMETER_BODY_NULL)
    if len(body) > max_bytes:
        raise too_long(len(body), max_bytes)
    return body


def check_key(key: bytes | str) -> bytes:
    """The key as bytes.

    Raises:
        MessageError: neither text nor bytes.
    """
    if isinstance(key, str):
        try:
            return key.encode()
        except UnicodeEncodeError as error:
            raise MessageError(
                f"the key {key!r} cannot be written as UTF-8", hint="give it as bytes", code=Code.BAD_REQUEST
            ) from error
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise MessageError(
            f"a key is text or bytes, not {type(key).__name__}",
            hint=f"write key={str(key)!r}",
            code=Code.BAD_REQUEST,
        )
    return bytes(key)


def find_partition(asked: Partition | int, known: Sequence[Partition], topic: str) -> Partition:
    """The partition that is asked for, among those that the topic has now.

    Raises:
        NotFoundError: it is none of them, or its number alone fits several.
    """
    if isinstance(asked, Partition):
        if asked in known:
            return asked
        matching: list[Partition] = []
    else:
        matching = [candidate for candidate in known if candidate.partition_id == asked]
    if len(matching) == 1:
        return matching[0]
    problem = "is on several Brokers" if matching else "is not one of its partitions"
    fitting = matching or known
    names = ", ".join(map(str, fitting[:_MOST_NAMED]))
    if len(fitting) > _MOST_NAMED:
        names += f" and {len(fitting) - _MOST_NAMED} more"
    raise NotFoundError(
        f"topic {topic!r}: {asked} {problem}", hint=f"name one of {names}", code=Code.NO_PARTITION_AVAILABLE
    )


def too_long(size_bytes: int, max_bytes: int) -> MessageError:
    """The error for a message beyond the topic's limit."""
    larger = f"make a topic that takes it: pytubemq topic create TOPIC --max-message-size {size_bytes}"
    return MessageError(
        f"the message has {size_bytes:,} bytes, the topic takes at most {max_bytes:,}",
        hint=f"send it in parts, or {larger}" if size_bytes <= MAX_MESSAGE_BYTES else "send it in parts",
        code=Code.MSG_OVER_MAX_LENGTH,
    )


def encode_message(
    body: bytes,
    attrs: Mapping[str, str] | None,
    msg_type: str | None,
    msg_time: datetime | str | None,
    max_bytes: int,
) -> Encoded:
    """Payload, flag, type and time as they go out.

    Raises:
        MessageError: an attribute, the type or the time is malformed, or all together is too long.
    """
    time_text = msg_time.strftime(MSG_TIME_FORMAT) if isinstance(msg_time, datetime) else msg_time
    try:
        payload, flag = encode_payload(body, attrs, msg_type=msg_type, msg_time=time_text)
    except (AttributeError, TypeError) as error:
        raise _wrong_type(attrs, msg_type, msg_time) from error
    # The original's producer counts the attributes' characters into the limit; the four bytes of length are free.
    if len(payload) - 4 > max_bytes:
        raise too_long(len(payload) - 4, max_bytes)
    return payload, flag, msg_type, time_text


def _wrong_type(attrs: object, msg_type: object, msg_time: object) -> MessageError:
    """Which of them is not what it has to be; found out only after it was seen that one is wrong."""
    # None stands for "left out" in the first two only.
    texts: list[tuple[str, object]] = [
        (name, "" if value is None else value) for name, value in (("msg_type", msg_type), ("msg_time", msg_time))
    ]
    if attrs:
        if not isinstance(attrs, Mapping):
            return MessageError(
                f"attrs are a mapping, not {type(attrs).__name__}",
                hint='write attrs={"key": "value"}',
                code=Code.BAD_REQUEST,
            )
        texts += [(f"the key {key!r} of an attribute", key) for key in attrs]
        texts += [(f"the value of attribute {key!r}", value) for key, value in attrs.items()]
    name, value = next(((name, value) for name, value in texts if not isinstance(value, str)), texts[-1])
    hint = "write a datetime or the text yyyyMMddHHmm" if name == "msg_time" else f"write {str(value)!r}"
    return MessageError(f"{name} is text, not {type(value).__name__}", hint=hint, code=Code.BAD_REQUEST)


def final_error(unit: Unit, cause: BaseException | None) -> TubeError:
    """The error a message ends with: of the cause's kind, with how often it was tried, and whether it may be there."""
    if isinstance(cause, RefusedError) and unit.tries <= 1:
        return cause
    tries = f"{unit.tries} tries" if unit.tries else "without being sent"
    text = cause.message if isinstance(cause, TubeError) else "no answer came in time"
    message = f"not delivered to {unit.partition} ({tries}): {text}"
    if unit.uncertain:
        message += "; it was sent and what became of it is unknown: the Broker may have it"
    hint = cause.hint if isinstance(cause, TubeError) else None
    error: TubeError
    if isinstance(cause, RefusedError):
        error = refused(cause.code or Code.UNSPECIFIED_ABNORMAL, message, hint=hint)
    elif isinstance(cause, TransportError):
        error = type(cause)(message, hint=hint)
    elif cause is None:
        error = RequestTimeoutError(message)
    else:
        error = TubeError(message, hint=hint)
    error.__cause__ = cause
    return error


def is_uncertain(error: TubeError) -> bool:
    """Whether the Broker may have taken what was sent although it ended so."""
    return error.at_work if isinstance(error, RemoteError) else not isinstance(error, RefusedError)


def unexpected(error: BaseException) -> TubeError:
    """A fault of ours, which shall not leave anybody waiting."""
    found = TubeError(f"sending failed: {type(error).__name__}: {error}")
    found.__cause__ = error
    return found
