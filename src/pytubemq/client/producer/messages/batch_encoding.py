"""Checks and encoding of messages that are sent together, as record batches.

The invariant: every Broker takes what passes, in batches of bounded size. The error for a message that does not pass
names its position, and none of the messages is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from pytubemq.client.producer.messages.message_checks import check_body, encode_message, too_long
from pytubemq.errors import Code, MessageError
from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.model.limits import MAX_RECORD_BATCH_BYTES, MAX_RECORD_BATCH_MESSAGES
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES
from pytubemq.wire.batch.record_batch import encode_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from pytubemq.client.producer.messages.message_checks import Body


class EncodedBatch(NamedTuple):
    """One record batch: its columns, the number of its messages, and their bytes."""

    columns: bytes
    messages: int
    size_bytes: int


class EncodedBatches(NamedTuple):
    """Record batches that are ready to be sent, in order."""

    batches: list[EncodedBatch]
    messages: int
    size_bytes: int
    msg_type: str | None
    msg_time: str | None


def encode_many(
    bodies: Iterable[Body],
    attrs: Mapping[str, str] | None,
    msg_type: str | None,
    msg_time: datetime | str | None,
    max_bytes: int,
) -> EncodedBatches:
    """Check bodies, all with the same attributes, and build their record batches.

    Raises:
        MessageError: there is none, or one cannot be sent as it is; the text names its position.
    """
    payloads, sizes = _check_bodies(bodies, max_bytes)
    flag, code, time_text = 0, NO_FILTER_CODE, None
    if attrs or msg_type is not None or msg_time is not None:
        # All have the same attributes: if the longest message fits with them, each does.
        longest = payloads[sizes.index(max(sizes))]
        whole, flag, msg_type, time_text = encode_message(longest, attrs, msg_type, msg_time, max_bytes)
        block = whole[: len(whole) - len(longest)]
        payloads = [block + payload for payload in payloads]
        sizes = [size + len(block) for size in sizes]
        # A blank type is none, as in the original.
        code = NO_FILTER_CODE if not msg_type or msg_type.isspace() else filter_code(msg_type)
    return _split(payloads, sizes, flag, code, msg_type, time_text)


def encode_payloads(
    payloads: list[bytes], *, flag: int, msg_type: str | None, msg_time: str | None, max_bytes: int
) -> EncodedBatches:
    """Build record batches of payloads that contain their attributes, type and time among them; each may have others.

    Args:
        payloads: as `wire.batch.payload.encode_payload` makes them.
        flag: of all of them.
        msg_type: of all of them.
        msg_time: of all of them, yyyyMMddHHmm.
        max_bytes: what the topic takes.

    Raises:
        MessageError: there is none, or one is too long; the text names its position.
    """
    sizes = list(map(len, payloads))
    if not sizes:
        raise MessageError("there is no message to send", hint="give at least one", code=Code.BAD_REQUEST)
    # If the longest passes, all do.
    longest = sizes.index(max(sizes))
    try:
        check_payload(payloads[longest], flag, max_bytes)
    except MessageError as error:
        raise MessageError(f"message {longest}: {error.message}", hint=error.hint, code=error.code) from error
    code = NO_FILTER_CODE if not msg_type or msg_type.isspace() else filter_code(msg_type)
    return _split(payloads, sizes, flag, code, msg_type, msg_time)


def check_payload(payload: bytes, flag: int, max_bytes: int) -> None:
    """Check a payload's length; the four bytes of its attributes' length are free, as in the original.

    Raises:
        MessageError: it is too long.
    """
    size_bytes = len(payload) - (4 if flag & HAS_ATTRIBUTES else 0)
    if size_bytes > max_bytes:
        raise too_long(size_bytes, max_bytes)


def _split(
    payloads: Sequence[bytes], sizes: list[int], flag: int, code: int, msg_type: str | None, msg_time: str | None
) -> EncodedBatches:
    batches: list[EncodedBatch] = []
    start = 0
    while start < len(payloads):
        stop, size_bytes = _batch_end(sizes, start)
        # The list itself where one batch has all of it.
        part = payloads if stop - start == len(payloads) else payloads[start:stop]
        batches.append(EncodedBatch(encode_columns(part, flag, code), stop - start, size_bytes))
        start = stop
    return EncodedBatches(batches, len(payloads), sum(sizes), msg_type, msg_time)


def _check_bodies(bodies: Iterable[Body], max_bytes: int) -> tuple[Sequence[bytes], list[int]]:
    if isinstance(bodies, (bytes, bytearray, memoryview, str)):
        raise MessageError(
            f"the bodies are a single {type(bodies).__name__}, not a list of bodies",
            hint="give a list, or use send() for one body",
            code=Code.BAD_REQUEST,
        )
    given = bodies if isinstance(bodies, list) else list(bodies)
    if not given:
        raise MessageError("there is no message to send", hint="give at least one body", code=Code.BAD_REQUEST)
    # The usual bodies are checked without a loop in Python.
    if _are_bytes(given):
        sizes = list(map(len, given))
        if min(sizes) > 0 and max(sizes) <= max_bytes:
            return given, sizes
    checked: list[bytes] = []
    for position, body in enumerate(given):
        try:
            checked.append(check_body(body, max_bytes))
        except MessageError as error:
            raise MessageError(f"message {position}: {error.message}", hint=error.hint, code=error.code) from error
    return checked, list(map(len, checked))


def _are_bytes(bodies: list[Body]) -> TypeGuard[list[bytes]]:
    return set(map(type, bodies)) == {bytes}


def _batch_end(sizes: list[int], start: int) -> tuple[int, int]:
    """Return the end of the batch that begins at `start`, and the bytes of its messages."""
    stop = min(start + MAX_RECORD_BATCH_MESSAGES, len(sizes))
    # Nearly always the number of messages is the bound; only else are sizes added one by one.
    size_bytes = sum(sizes[start:stop])
    if size_bytes <= MAX_RECORD_BATCH_BYTES:
        return stop, size_bytes
    size_bytes, stop = sizes[start], start + 1
    while (
        stop < len(sizes)
        and size_bytes + sizes[stop] <= MAX_RECORD_BATCH_BYTES
        and stop - start < MAX_RECORD_BATCH_MESSAGES
    ):
        size_bytes += sizes[stop]
        stop += 1
    return stop, size_bytes
