"""Single messages that are built in a row have the bytes of each built by itself."""

from __future__ import annotations

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.sequences import ProducerMark
from pytubemq.storage.format.entry import EntryEncoder
from pytubemq.storage.format.index import encode_index_entry
from pytubemq.storage.format.single_messages import build_singles

# the long ones are made of a short pattern: what matters of them is their length, which takes three bytes to write
long_payloads = st.builds(
    lambda pattern, size: (pattern * size)[:size], st.binary(min_size=1, max_size=4), st.integers(16_380, 17_000)
)
ordinals = st.one_of(st.integers(0, 2000), st.integers(0, 1 << 50))


@given(
    st.lists(st.one_of(st.binary(min_size=1, max_size=40), long_payloads), max_size=20),
    st.sampled_from([0, 1, 300]),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.one_of(st.integers(1, 40_000), st.integers(1, (1 << 63) - 100)),
    ordinals,
    st.integers(0, 1 << 60),
    st.one_of(
        st.none(), st.builds(ProducerMark, st.integers(1, 1 << 62), st.integers(0, 5), st.integers(0, (1 << 62)))
    ),
)
def test_a_row_has_the_bytes_of_its_messages(
    payloads: list[bytes],
    flag: int,
    key_code: int,
    message_id: int,
    ordinal: int,
    position: int,
    mark: ProducerMark | None,
) -> None:
    time_ms = 1_700_000_000_000
    built = build_singles(
        payloads, flag, key_code,
        message_id=message_id, ordinal=ordinal, position=position, time_ms=time_ms, mark=mark,
    )  # fmt: skip
    encoder = EntryEncoder(time_ms) if mark is None else EntryEncoder(time_ms, mark.producer_id, mark.epoch)
    entries, index, at = b"", b"", position
    for number, payload in enumerate(payloads):
        entry = encoder.encode(
            message_id + number,
            payload,
            flag,
            (ordinal + number) * 28,
            crc32(payload) & 0x7FFFFFFF,
            0 if mark is None else mark.sequence + number,
        )
        entries += entry
        index += encode_index_entry(at, ordinal + number, time_ms, len(entry), 1, key_code, crc32(entry), 0)
        at += len(entry)
    assert b"".join(built.entries) == entries
    assert b"".join(built.slots) == index
    assert built.size_bytes == len(entries)
