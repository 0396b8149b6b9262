"""Checks and encoding of a message when it is submitted.

The invariant: what passes these checks is something every Broker takes; what does not never reaches the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from pytubemq.errors import (
    Code,
    MessageError,
    NotFoundError,
)
from pytubemq.model.ids import Partition
from pytubemq.model.limits import MAX_MESSAGE_BYTES
from pytubemq.wire.batch.payload import encode_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

MSG_TIME_FORMAT = "%Y%m%d%H%M"
_MOST_NAMED = 5
"""Partitions named in one error; the others are counted."""

Body: TypeAlias = bytes | bytearray | memoryview
"""Types of a message body; all but bytes are copied."""

Encoded: TypeAlias = tuple[bytes, int, str | None, str | None]
"""Payload, flag, message type, message time."""


def check_body(body: Body, max_bytes: int) -> bytes:
    """Return the body as bytes.

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
        # A copy, as its owner may change the buffer before it is sent.
        body = bytes(body)
    if not body:
        raise MessageError("the message body is empty", hint="send at least one byte", code=Code.PARAMETER_BODY_NULL)
    if len(body) > max_bytes:
        raise too_long(len(body), max_bytes)
    return body


def check_key(key: bytes | str) -> bytes:
    """Return the key as bytes.

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


def find_partition(wanted: Partition | int, known: Sequence[Partition], topic: str) -> Partition:
    """Return the requested partition among those that the topic has now.

    Raises:
        NotFoundError: it is none of them, or its number alone fits several.
    """
    if isinstance(wanted, Partition):
        if wanted in known:
            return wanted
        matching: list[Partition] = []
    else:
        matching = [candidate for candidate in known if candidate.partition_id == wanted]
    if len(matching) == 1:
        return matching[0]
    problem = "is on several Brokers" if matching else "is not one of its partitions"
    # Those to choose from; if none has this number, all that there are.
    fitting = matching or known
    names = ", ".join(map(str, fitting[:_MOST_NAMED]))
    if len(fitting) > _MOST_NAMED:
        names += f" and {len(fitting) - _MOST_NAMED} more"
    raise NotFoundError(
        f"topic {topic!r}: {wanted} {problem}", hint=f"name one of {names}", code=Code.NO_PARTITION_AVAILABLE
    )


def too_long(size_bytes: int, max_bytes: int) -> MessageError:
    """Return the error for a message beyond the topic's limit."""
    larger = f"have the topic take it: pytubemq topic alter TOPIC --max-message-size {size_bytes}"
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
    """Return payload, flag, type and time as they are sent.

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
    """Return the error that names the argument of the wrong type; called only if there is one."""
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
