"""Payloads of rows: the attribute block in front, as every consumer reads it.

The invariant: rows whose attributes differ in nothing but their identity cost one joining of bytes each, no dictionary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import MessageError
from pytubemq.spark.sink.identity import without_identity
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES
from pytubemq.wire.text.attributes import format_attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PLAIN: Final = 0


def payloads(
    bodies: Sequence[bytes],
    *,
    msg_type: str | None,
    msg_time: str | None,
    identity: str | None = None,
    ends: Iterable[object] = (),
) -> tuple[list[bytes], int]:
    """Build payloads and their flag, for rows without attributes of their own.

    Args:
        bodies: at least one byte each.
        msg_type: of all of them.
        msg_time: of all of them, yyyyMMddHHmm.
        identity: what the identity's attributes begin with.
        ends: what they end with, one for each body: a number, or a hash of a key.
    """
    lead = format_attributes(None, msg_type=msg_type, msg_time=msg_time).encode()
    if identity is None:
        if not lead:
            return list(bodies), PLAIN
        block = len(lead).to_bytes(4, "big") + lead
        return [block + body for body in bodies], HAS_ATTRIBUTES
    lead = b"%b,%b" % (lead, identity.encode()) if lead else identity.encode()
    ended = [str(end).encode() for end in ends]
    blocks = {size: (len(lead) + size).to_bytes(4, "big") + lead for size in set(map(len, ended))}
    return [b"%b%b%b" % (blocks[len(end)], end, body) for end, body in zip(ended, bodies, strict=True)], HAS_ATTRIBUTES


def payload_of_one(
    body: bytes,
    attributes: Mapping[str, str | None] | None,
    *,
    msg_type: str | None,
    msg_time: str | None,
    identity: str | None = None,
    end: object = "",
) -> tuple[bytes, int]:
    """Build payload and flag of a row with attributes of its own.

    Raises:
        MessageError: an attribute cannot be written.
    """
    own: dict[str, str] = {}
    for name, value in (attributes or {}).items():
        if value is None:
            raise MessageError(f"the value of {name!r} is null", hint="leave such an entry out of the map", code=400)
        own[name] = value
    if identity is not None:
        own = without_identity(own)
    text = format_attributes(own, msg_type=msg_type, msg_time=msg_time, copied=True)
    if identity is not None:
        text = f"{text},{identity}{end}" if text else f"{identity}{end}"
    if not text:
        return body, PLAIN
    try:
        block = text.encode()
    except UnicodeEncodeError as error:
        raise MessageError(f"an attribute cannot be written as UTF-8: {error}", code=400) from error
    return b"%b%b%b" % (len(block).to_bytes(4, "big"), block, body), HAS_ATTRIBUTES
