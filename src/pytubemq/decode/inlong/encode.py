"""Encoding of messages that InLong's own class reads: versions 0 to 4 and the protobuf form.

The invariant: what `versions` and `protobuf` read back is what was given. Version 0 the original reads but
cannot write.
"""

from __future__ import annotations

import gzip
import struct
from typing import TYPE_CHECKING, Final

from pytubemq.decode.inlong.attributes import format_attributes
from pytubemq.decode.inlong.compression import pack_snappy
from pytubemq.decode.inlong.modified_utf8 import write_utf
from pytubemq.decode.inlong.protobuf import format_protobuf
from pytubemq.decode.inlong.version_4 import FRAME_BYTES, NO_NUMBERS, OWN_ATTRIBUTES, SNAPPY, TAIL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_ATTRIBUTE_BYTES: Final = 0xFFFF


def encode_inlong(
    groups: Sequence[tuple[Mapping[str, str], Sequence[bytes]]],
    *,
    version: int = 1,
    compress: bool = True,
    created_ms: int,
) -> bytes:
    """Encode a message of version 0, 1 or 2: groups of attributes and records, Snappy-compressed or not.

    Raises:
        ValueError: the version is another, or attributes cannot be written (`&` or `=` in them, too long).
    """
    if version not in (0, 1, 2):
        raise ValueError(f"version {version} is not 0, 1 or 2; 3 and 4 have functions of their own")
    parts = [_attribute_text(attributes) for attributes, _ in groups]
    out = bytearray(_head(version, created_ms, sum(len(records) for _, records in groups), len(groups)))
    for text, (_, records) in zip(parts, groups, strict=True):
        out += text
        if version == 2:
            out += struct.pack(">i", len(records))
        out += _content(b"".join(_piece(record) for record in records), compress=compress)
    return bytes(out) + bytes((0x0F, version))


def encode_inlong_v3(
    groups: Sequence[tuple[Mapping[str, str], Sequence[tuple[bytes, Mapping[str, str]]]]],
    *,
    compress: bool = True,
    created_ms: int,
) -> bytes:
    """Encode a message of version 3: each record has attributes of its own beside its group's.

    Raises:
        ValueError: attributes cannot be written.
    """
    out = bytearray(_head(3, created_ms, sum(len(records) for _, records in groups), len(groups)))
    for attributes, records in groups:
        inside = b"".join(_piece(record) + _piece(format_attributes(own).encode()) for record, own in records)
        out += _attribute_text(attributes) + _content(_piece(inside) if records else b"", compress=compress)
    return bytes(out) + b"\x0f\x03"


def encode_inlong_v4(
    attributes: Mapping[str, str],
    records: Sequence[bytes],
    *,
    own: Sequence[Mapping[str, str]] | None = None,
    numbers: tuple[int, int] | None = None,
    time_s: int,
    compress: bool = True,
) -> bytes:
    """Encode a message of version 4. `own` are attributes of each record, `numbers` those of group and stream.

    Raises:
        ValueError: attributes cannot be written, or there are more than 65,535 records.
    """
    message = binary_message(attributes, records, own=own, numbers=numbers, time_s=time_s, compress=compress)
    return b"\x0f\x04" + message + b"\x0f\x04"


def binary_message(
    attributes: Mapping[str, str],
    records: Sequence[bytes],
    *,
    own: Sequence[Mapping[str, str]] | None = None,
    numbers: tuple[int, int] | None = None,
    time_s: int,
    compress: bool = False,
) -> bytes:
    """Encode the part between the magics of version 4: a binary message as an SDK sends it to a DataProxy."""
    text = format_attributes(attributes).encode()
    if len(text) > _MOST_ATTRIBUTE_BYTES or len(records) > 0xFFFF:
        raise ValueError("a message of version 4 has at most 65,535 records and as many bytes of attributes")
    if own is None:
        body = b"".join(_piece(record) for record in records)
    else:
        pairs = zip(records, own, strict=True)
        body = b"".join(_piece(record) + _piece(format_attributes(each).encode()) for record, each in pairs)
    if compress:
        body = pack_snappy(body)
    flags = (OWN_ATTRIBUTES if own is not None else 0) | (NO_NUMBERS if numbers is None else 0)
    group, stream = numbers or (0, 0)
    kind = 7 | (SNAPPY << 5 if compress else 0)
    total = len(body) + len(text) + FRAME_BYTES - 4
    head = struct.pack(">iBHHHiHIi", total, kind, group, stream, flags, time_s, len(records), 0, len(body))
    return head + body + struct.pack(">H", len(text)) + text + TAIL


def encode_inlong_protobuf(
    records: Sequence[tuple[int, bytes, Mapping[str, str]]], *, source: str = "", compression: str = "none"
) -> bytes:
    """Encode the protobuf form: records as (time in ms, body, params). `compression`: none, gzip or snappy.

    The message's attributes then say `version=1`, and `compressType=` 0, 1 or 2.
    """
    content = format_protobuf([(time_ms, source, body, params) for time_ms, body, params in records])
    match compression:
        case "gzip":
            return gzip.compress(content, mtime=0)
        case "snappy":
            return pack_snappy(content)
        case "none":
            return content
        case _:
            raise ValueError(f"compression {compression!r} is not none, gzip or snappy")


def _head(version: int, created_ms: int, records: int, groups: int) -> bytes:
    out = bytes((0x0F, version))
    if version >= 1:
        out += struct.pack(">q", created_ms)
    if version >= 2:
        out += struct.pack(">i", records)
    return out + struct.pack(">i", groups)


def _attribute_text(attributes: Mapping[str, str]) -> bytes:
    text = write_utf(format_attributes(attributes))
    if len(text) > _MOST_ATTRIBUTE_BYTES:
        raise ValueError(f"attributes of {len(text)} bytes, at most {_MOST_ATTRIBUTE_BYTES} can be written")
    return struct.pack(">H", len(text)) + text


def _content(content: bytes, *, compress: bool) -> bytes:
    if compress:
        content = pack_snappy(content)
    return struct.pack(">i", len(content) + 1) + bytes((compress,)) + content


def _piece(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
