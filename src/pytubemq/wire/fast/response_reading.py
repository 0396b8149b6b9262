"""Responses to messages that were accepted one after the other, read many at a time.

The invariant: the result for a run is what `decode_accepted` returns for each response; what it cannot read, or reads
otherwise, is left to the caller.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.model.limits import MAX_RECORD_BATCH_MESSAGES
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.fast.send_message import decode_accepted
from pytubemq.wire.framing.frame_run import agreeing

if TYPE_CHECKING:
    from pytubemq.wire.rpc.response_run import ResponseRun

_LEAST: Final = 4
"""Fewer are sooner read one by one."""
_WINDOW: Final = 1 << 14
"""Numbers that count up share all but two bytes within such a window."""
_LOW: Final = _WINDOW - 1
_FIRST: Final = bytes(value & 0x7F | 0x80 for value in range(_WINDOW))
_SECOND: Final = bytes(value >> 7 | 0x80 for value in range(_WINDOW))
"""The first two bytes of a longer varint, by its lower 14 bits."""
_TEXT_LENGTH_AT: Final = 6
_ID_BEHIND_TEXT: Final = 3
_SHARED_BYTES: Final = 2 + 7 + 1 + 6 + 1
"""Bytes from the message id to the offset: an id of usual length, a tag, a time of usual length, a tag."""
_MOST_OFFSET_BYTES: Final = 9


class AcceptedSends(NamedTuple):
    """Messages that were accepted one after the other: their number, the first one's id and offset, and the time."""

    messages: int
    message_id: int
    offset: int
    append_time: int


def read_accepted(run: ResponseRun) -> list[AcceptedSends]:
    """Return what the first responses of a run say; the caller reads the rest of the run one by one."""
    found: list[AcceptedSends] = []
    at, left, data, stride = run.at, len(run), run.data, run.stride
    # What is between two messages is the frame and envelope of the next one, which the stream has compared.
    gap = stride - run.body_bytes
    text_bytes = data[at + _TEXT_LENGTH_AT] if run.body_bytes > _TEXT_LENGTH_AT else 0
    id_at = _TEXT_LENGTH_AT + 1 + text_bytes + _ID_BEHIND_TEXT
    offset_bytes = run.body_bytes - id_at - _SHARED_BYTES
    # Two bytes that count up and one at least above them; young partitions have shorter offsets and are read one by
    # one.
    if not 3 <= offset_bytes <= _MOST_OFFSET_BYTES or not text_bytes:
        return found
    pattern = _pattern(text_bytes, gap, offset_bytes)
    while left >= _LEAST:
        matched = pattern.match(data, at, at + left * stride - gap)
        # The first by the plain shortcut: what it says the pattern then holds the others to.
        said = None if matched is None else decode_accepted(data[at : at + run.body_bytes])
        if matched is None or said is None:
            break
        message_id, offset, append_time = said
        count = (matched.end() - at + gap) // stride
        low_id, low_offset = message_id & _LOW, offset & _LOW
        # Beyond a window the upper bytes change, and the pattern holds these to be the same.
        most = min(count, _WINDOW - low_id, (_WINDOW - low_offset + OFFSET_UNIT - 1) // OFFSET_UNIT)
        count = _rising(data, at + id_at, stride, most, low_id, 1)
        count = _rising(data, at + id_at + _SHARED_BYTES, stride, count, low_offset, OFFSET_UNIT)
        # Other numbers than expected, as when another producer's messages came between; not worth a run.
        if count < most and count < _LEAST:
            break
        found.append(AcceptedSends(count, message_id, offset, append_time))
        at += count * stride
        left -= count
    return found


def _rising(data: bytes, at: int, stride: int, count: int, low: int, step: int) -> int:
    """Count the varints at `at` and every `stride` bytes after it that rise by `step`; all other bytes are the
    same."""
    for column, expected in ((0, _FIRST), (1, _SECOND)):
        # All first bytes in one comparison, then all second ones.
        wanted = expected[low : low + count * step : step]
        seen = data[at + column : at + column + count * stride : stride][:count]
        if seen != wanted:
            count = agreeing(seen, wanted)
    return count


@lru_cache(maxsize=256)
def _pattern(text_bytes: int, gap: int, offset_bytes: int) -> re.Pattern[bytes]:
    """Match messages of responses that share the upper bytes of their ids, the time and the upper bytes of offsets."""
    # success, 200 and the text, then requireAuth and the id's tag, as a Broker of ours writes them for what it
    # accepted.
    start = b"\\x08\\x01\\x10\\xc8\\x01\\x1a%b[0-9]{%d}\\x20\\x00\\x28[\\x80-\\xff]{2}" % (
        re.escape(bytes((text_bytes,))),
        text_bytes,
    )
    shared = b"([\\x80-\\xff]{6}[\\x00-\\x7f]\\x30[\\x80-\\xff]{5}[\\x00-\\x7f]\\x38)"
    upper = b"([\\x80-\\xff]{%d}[\\x00-\\x7f])" % (offset_bytes - 3)
    one = b"%b%b[\\x80-\\xff]{2}%b" % (start, shared, upper)
    # Back references: id and time above the lower 14 bits must be those of the first, byte for byte.
    like_it = b"%b\\1[\\x80-\\xff]{2}\\2" % start
    # Without backtracking (`}+`), so that the time is in proportion to what matches.
    return re.compile(b"%b(?:.{%d}%b){0,%d}+" % (one, gap, like_it, MAX_RECORD_BATCH_MESSAGES), re.DOTALL)
