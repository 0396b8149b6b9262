"""Record batches ("packs" on the wire) with valid checksums and invalid contents."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

from pytubemq.wire.batch.record_batch import encode_columns

if TYPE_CHECKING:
    from pytubemq.testing.hostile.values import Values

_COLUMNS = Struct("<BBHIii")
_CRC = Struct("<I")
_HEAD = Struct("<QQQQQI")


def sound_columns(values: Values) -> bytes:
    """Return columns that any Broker accepts."""
    payloads = [values.random.randbytes(values.random.randrange(1, 40)) for _ in range(values.random.randrange(1, 5))]
    return encode_columns(payloads, 0, 0)


def bad_columns(values: Values) -> bytes:
    """Return columns with a valid checksum, but a count, a length or a flag that does not fit, or payloads that
    contradict their flags."""
    random = values.random
    payloads = [values.data()[:200] for _ in range(random.randrange(1, 6))]
    flags = [random.choice((0, 1, 2, 3, -1, 2**31 - 1)) for _ in payloads]
    codes = [random.choice((0, 7, -1)) for _ in payloads]
    if random.random() < 0.5:
        return encode_columns(payloads, flags, codes)
    count = random.choice((0, 1, len(payloads), 16_384, 16_385, 2**32 - 1))
    lengths = [random.choice((0, 1, 2**31, 2**32 - 1, len(one))) for one in payloads]
    head = _COLUMNS.pack(random.choice((1, 1, 1, 0, 2)), random.choice((0, 1, 2, 3, 4, 255)), 0, count, 1, 0)
    body = head + b"".join(_CRC.pack(length) for length in lengths) + b"".join(payloads)
    return _CRC.pack(crc32(body)) + body


def bad_stored(values: Values) -> bytes:
    """Return a stored pack, as in a fetch response, with the numbers of its head at their bounds."""
    random = values.random
    numbers = [abs(values.number()) % 2**64 for _ in range(5)]
    fields = _HEAD.pack(*numbers, random.choice((0, 1, 2**32 - 1)))
    columns = bad_columns(values) if random.random() < 0.5 else sound_columns(values)
    return fields + _CRC.pack(crc32(fields)) + columns
