"""Variable-length integers as protobuf has them."""

from __future__ import annotations

import pytest
from hypothesis import given

from pytubemq.wire.protobuf.varint import decode_varint, encode_rising, encode_shared, encode_varint
from tests.unit.wire.strategies import I64


@given(I64)
def test_what_is_written_is_read(value: int) -> None:
    data = encode_varint(value)
    assert decode_varint(b"x" + data + b"y", 1) == (value % 2**64, 1 + len(data))


@given(I64)
def test_shared_and_rising_numbers_are_written_alike(value: int) -> None:
    assert encode_varint(value) == encode_rising(value) == encode_shared(value)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (-1, "ffffffffffffffffff01")],
)
def test_examples(value: int, written: str) -> None:
    assert encode_varint(value).hex() == written


def test_too_long() -> None:
    with pytest.raises(ValueError, match="more than ten bytes"):
        decode_varint(b"\xff" * 11, 0)


def test_cut() -> None:
    with pytest.raises(IndexError):
        decode_varint(b"\xff\xff", 0)
