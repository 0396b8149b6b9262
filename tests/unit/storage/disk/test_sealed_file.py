"""The check at the end of small text files."""

from __future__ import annotations

import pytest

from pytubemq.storage.disk.sealed_file import seal, unseal


@pytest.mark.parametrize("text", [b"", b"{", b'{"a":1,', b"x" * 5000, b'{"crc32":"00000000"}\n{'])
def test_what_was_sealed_comes_back_and_a_flipped_bit_does_not(text: bytes) -> None:
    whole = seal(text)
    assert unseal(whole) == text
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            assert unseal(bytes(damaged)) is None
    assert all(unseal(whole[:size]) is None for size in range(len(whole)))
