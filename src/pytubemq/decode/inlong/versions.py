"""InLongMsg in its binary form: the version that a message has, and the parser of each version.

A new version gets a file like `version_4`, a line in `parse`, and a place in `LAST_VERSION`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.decode.inlong.group import MAGIC_BYTES, InLongError
from pytubemq.decode.inlong.version_4 import parse_version_4
from pytubemq.decode.inlong.versions_0_to_3 import parse_versions_0_to_3

if TYPE_CHECKING:
    from pytubemq.decode.inlong.group import Bounds, Group

LAST_VERSION: Final = 4
_MAGIC: Final = 0x0F


def version_of(body: bytes) -> int | None:
    """Return the version that both ends of a message name; None: it is no InLongMsg."""
    if len(body) < 2 * MAGIC_BYTES or body[0] != _MAGIC or body[1] > LAST_VERSION:
        return None
    return body[1] if body[:MAGIC_BYTES] == body[-MAGIC_BYTES:] else None


def parse(body: bytes, bounds: Bounds) -> list[Group]:
    """Return the groups of a message of version 0 to 4.

    Raises:
        InLongError: it is none, is cut off, or goes beyond the bounds.
    """
    version = version_of(body)
    if version is None:
        raise InLongError("not an InLongMsg: it does not begin and end with 0F and a version from 0 to 4")
    return parse_version_4(body, bounds) if version == LAST_VERSION else parse_versions_0_to_3(body, version, bounds)
