"""The first 64 bytes of every file: what it is, of which version, and its number in its sequence.

The invariant: no field of a file is used before its header has proved itself (magic, version, feature bits, CRC-32),
and a file of another version is refused before anything is changed. All numbers are little-endian.
`docs/design/storage.md` shows the same layout as a table.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from pytubemq.errors import CorruptError, NewerVersionError, OlderVersionError

if TYPE_CHECKING:
    from pathlib import Path

VERSION: Final = 2
"""The version of every file kind; a kind that changes gets its own."""
KNOWN_FEATURES: Final = 0
"""Feature bits this version understands; a file with any other is refused."""


class FileKind(Enum):
    """The kinds of files; the value is the magic."""

    JOURNAL = b"PTMQJRNL"
    LOG = b"PTMQPLOG"
    INDEX = b"PTMQPIDX"
    CHECKPOINT = b"PTMQCKPT"


_HEADER = struct.Struct("<8sIIQQQI16xI")
HEADER_BYTES: Final = _HEADER.size  # 64
_CHECKED: Final = HEADER_BYTES - 4


REPAIR_HINT: Final = (
    "run `pytubemq store verify` and `pytubemq store repair` on its directory, which keep all that "
    "journal or logs still have, or restore it as a whole from a backup; nothing was changed"
)
"""The way out for a store that does not open because of a damaged or missing file."""


class FileHeader(NamedTuple):
    """The first 64 bytes of a file.

    `number` is the journal's number or the segment's base ordinal; `base` the journal's first block sequence or the
    segment's base position; `salt` a random number that seeds the checks of a journal's blocks.
    """

    kind: FileKind
    number: int
    base: int
    salt: int = 0

    def encode(self) -> bytes:
        """Return the 64 bytes."""
        head = _HEADER.pack(self.kind.value, VERSION, 0, 0, self.number, self.base, self.salt, 0)[:_CHECKED]
        return head + crc32(head).to_bytes(4, "little")


def decode_header(data: bytes, kind: FileKind, path: Path) -> FileHeader | None:
    """Return the header at the start of `data`; None if the bytes are not a whole, sound header of this kind.

    Raises:
        NewerVersionError, OlderVersionError: the header is sound and from another version, or has feature bits unknown
            here.
    """
    if len(data) < HEADER_BYTES:
        return None
    magic, version, _, features, number, base, salt, check = _HEADER.unpack_from(data)
    # The check before the version: a damaged number must not pass for another version of the program.
    if magic != kind.value or check != crc32(data[:_CHECKED]):
        return None
    # An unknown feature counts as newer, since it may change what the bytes mean.
    if version > VERSION or features & ~KNOWN_FEATURES:
        raise NewerVersionError(
            f"{path} has version {version} and features {features:#x}; this program reads version {VERSION} "
            f"and features {KNOWN_FEATURES:#x}",
            hint="run the newer version of pytubemq that wrote it; the file was left untouched",
        )
    if version < VERSION:
        raise OlderVersionError(
            f"{path} has version {version}, older than this program reads (version {VERSION})",
            hint="run the older version of pytubemq that wrote it, or give an empty data directory; "
            "the file was left untouched",
        )
    return FileHeader(kind, number, base, salt)


def corrupt_error(path: Path, position: int, what: str) -> CorruptError:
    """Return the error for bytes that fail their check where nothing may be cut."""
    return CorruptError(
        f"{path} is damaged at byte {position}: {what}",
        hint=REPAIR_HINT,
    )
