"""The payload of a message: an attribute block, if there are attributes, and the body.

The invariant: the flag's bit 0 is set exactly when the block is there (the original sets it for an empty attribute
string too, and then its consumers cannot read the message).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from pytubemq.errors import Code, FormatError, MessageError
from pytubemq.wire.text.attributes import format_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping

HAS_ATTRIBUTES: Final = 0x1
"""The flag's bit for an attribute block."""


_read_size: Final = Struct(">i").unpack_from
"""Less than half the time of `int.from_bytes`, for a check that is made of every message with attributes."""


def encode_payload(
    body: bytes,
    attributes: Mapping[str, str] | None = None,
    *,
    msg_type: str | None = None,
    msg_time: str | None = None,
) -> tuple[bytes, int]:
    """Encode the payload and return it with its flag.

    Raises:
        MessageError: the body is empty, or an attribute cannot be written (see `format_attributes`).
    """
    # The original refuses an empty body as well, at its producer (442) and at the Broker (400).
    if not body:
        raise MessageError("a message needs a body of at least one byte", code=Code.PARAMETER_BODY_NULL)
    # The very bytes of the caller: a message without attributes is not copied.
    if not attributes and msg_type is None and msg_time is None:
        return body, 0
    text = format_attributes(attributes, msg_type=msg_type, msg_time=msg_time)
    # All of it was blank. Java would set the flag here without a block, which consumers drop as damaged.
    if not text:
        return body, 0
    try:
        # Lone surrogates are text to Python and have no UTF-8.
        block = text.encode()
    except UnicodeEncodeError as error:
        raise MessageError(f"an attribute cannot be written as UTF-8: {error}", code=400) from error
    return b"%b%b%b" % (len(block).to_bytes(4, "big"), block, body), HAS_ATTRIBUTES


def attributes_fit(payload: bytes) -> bool:
    """True if a payload whose flag claims attributes has room for their length."""
    # The original takes such a message, and its consumers drop it; here the sender hears of it (400).
    return len(payload) >= 4 and _read_size(payload)[0] <= len(payload) - 4


def decode_payload(payload: bytes, flag: int) -> tuple[bytes, str | None]:
    """Decode a payload to the body and the attribute string (None without one).

    A negative length of the block counts as 0, as in the original.

    Raises:
        FormatError: the flag claims a block that is not there, or the block is not UTF-8.
    """
    if not flag & HAS_ATTRIBUTES:
        return payload, None
    # The same reading as Java's: a block too long, or no room for its length, makes the message malformed.
    if len(payload) < 4:
        raise FormatError(f"a payload of {len(payload)} bytes has no room for the attributes its flag claims")
    size = max(int.from_bytes(payload[:4], "big", signed=True), 0)
    if size > len(payload) - 4:
        raise FormatError(f"attributes of {size} bytes are claimed, {len(payload) - 4} bytes are there")
    try:
        text = payload[4 : 4 + size].decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"the attributes are not UTF-8: {error}") from error
    # A block without bytes counts as none, as in Java.
    return payload[4 + size :], text or None
