"""The checksum of a payload."""

from __future__ import annotations

from typing import Final
from zlib import crc32

# Java, C++ and Go all send it; a Broker of the original refuses any other value that does not fit with 403.
NOT_CHECKED: Final = -1
"""The value that producers send instead of a checksum: the Broker computes its own."""


def check_sum(payload: bytes | bytearray | memoryview) -> int:
    """Return zlib's CRC-32 of the whole payload, with its attribute block, without the top bit: a non-negative int32.

    `check_sum(b"123456789") == 1274296614`.
    """
    # Java keeps it in a signed int, where the top bit would make it negative.
    return crc32(payload) & 0x7FFFFFFF
