"""Frames: any chunking gives the same ones, and no length is believed before it is checked."""

from __future__ import annotations

import itertools
import struct
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import FrameError
from pytubemq.model.limits import MAX_FRAME_BLOCKS, MAX_FRAME_BYTES
from pytubemq.wire.framing.frame import TOKEN, Frame, FrameDecoder, encode_frame
from tests.unit.wire.strategies import fault


def frame_of(serial: int, blocks: list[bytes]) -> bytes:
    parts = [struct.pack(">Iii", TOKEN, serial, len(blocks))]
    for block in blocks:
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


FRAMES = st.lists(
    st.tuples(st.integers(-(2**31), 2**31 - 1), st.lists(st.binary(max_size=30), min_size=1, max_size=5)), max_size=6
)


@given(FRAMES, st.lists(st.integers(0, 400)))
def test_any_chunking_gives_the_same_frames(frames: list[tuple[int, list[bytes]]], cuts: list[int]) -> None:
    stream = b"".join(frame_of(serial, blocks) for serial, blocks in frames)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    decoder = FrameDecoder()
    found: list[Frame] = []
    for start, end in itertools.pairwise(edges):
        found += decoder.feed(stream[start:end])
    assert found == [Frame(serial, b"".join(blocks)) for serial, blocks in frames]
    assert not decoder.mid_frame


@given(FRAMES)
def test_byte_by_byte(frames: list[tuple[int, list[bytes]]]) -> None:
    decoder = FrameDecoder()
    found: list[Frame] = []
    for serial, blocks in frames:
        stream = frame_of(serial, blocks)
        for n in range(len(stream)):
            found += decoder.feed(stream[n : n + 1])
            assert decoder.mid_frame == (n + 1 < len(stream))
    assert found == [Frame(serial, b"".join(blocks)) for serial, blocks in frames]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_noise_gives_frames_or_one_frame_error(noise: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(noise)), len(noise)]
    decoder = FrameDecoder()
    for start, end in itertools.pairwise(edges):
        error = fault(partial(decoder.feed, noise[start:end]), FrameError)
        if error is not None:
            assert error.message
            with pytest.raises(FrameError):
                decoder.feed(b"")


@given(FRAMES, st.data())
def test_damaged_streams_raise_nothing_but_frame_error(
    frames: list[tuple[int, list[bytes]]], data: st.DataObject
) -> None:
    stream = bytearray(b"".join(frame_of(serial, blocks) for serial, blocks in frames))
    for _ in range(data.draw(st.integers(0, 4)) if stream else 0):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    decoder = FrameDecoder()
    error = fault(lambda: decoder.feed(bytes(stream)), FrameError)
    assert error is None or error.message


@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(1, 50) | st.none())
def test_what_is_encoded_is_decoded(parts: list[bytes], block_bytes: int | None) -> None:
    written = b"".join(encode_frame(-7, parts, block_bytes=block_bytes))
    assert FrameDecoder().feed(written) == [Frame(-7, b"".join(parts))]
    (blocks,) = struct.unpack_from(">i", written, 8)
    size = sum(map(len, parts))
    assert blocks == (1 if block_bytes is None else max(1, -(-size // block_bytes)))


def test_one_block_copies_no_part() -> None:
    part = b"x" * 100_000
    assert encode_frame(1, [part], block_bytes=None)[1] is part


@pytest.mark.parametrize("claimed", [0, -1, -(2**31), MAX_FRAME_BLOCKS + 1, 2**31 - 1])
def test_number_of_blocks_is_bounded(claimed: int) -> None:
    with pytest.raises(FrameError, match=f"claims {claimed} blocks"):
        FrameDecoder().feed(struct.pack(">Iii", TOKEN, 5, claimed))


@pytest.mark.parametrize(("length", "says"), [(-1, "-1 bytes"), (2**31 - 1, "2147483647 bytes or more")])
def test_block_length_is_bounded(length: int, says: str) -> None:
    with pytest.raises(FrameError, match=says):
        FrameDecoder().feed(struct.pack(">Iiii", TOKEN, 5, 1, length))


def test_total_is_bounded_over_blocks() -> None:
    decoder = FrameDecoder(max_frame_bytes=100, max_blocks=10)
    decoder.feed(struct.pack(">Iiii", TOKEN, 5, 3, 60) + b"a" * 60)
    with pytest.raises(FrameError, match="101 bytes or more; 100 are allowed"):
        decoder.feed(struct.pack(">i", 41))


def test_a_block_may_be_as_large_as_a_frame() -> None:
    content = b"m" * MAX_FRAME_BYTES
    stream = b"".join(encode_frame(1, [content], block_bytes=None))
    decoder = FrameDecoder()
    found = []
    for start in range(0, len(stream), 1 << 20):
        found += decoder.feed(stream[start : start + (1 << 20)])
    assert found == [Frame(1, content)]


def test_too_large_to_send() -> None:
    with pytest.raises(FrameError, match="do not fit into a frame") as caught:
        encode_frame(1, [bytes(MAX_FRAME_BYTES + 1)], block_bytes=None)
    assert not caught.value.remote
    with pytest.raises(FrameError):
        encode_frame(1, [bytes(MAX_FRAME_BLOCKS + 1)], block_bytes=1)


def test_noise_is_refused_at_its_first_wrong_byte() -> None:
    with pytest.raises(FrameError, match="0x47"):
        FrameDecoder().feed(b"G")
    decoder = FrameDecoder()
    assert decoder.feed(b"\xff\x7f") == []
    with pytest.raises(FrameError, match="0xff7f00"):
        decoder.feed(b"\x00")


def test_a_large_frame_in_tiny_reads_takes_memory_for_what_has_come() -> None:
    """The claimed length reserves nothing: the decoder holds what was fed."""
    decoder = FrameDecoder()
    decoder.feed(struct.pack(">Iiii", TOKEN, 5, 1, MAX_FRAME_BYTES) + b"x" * 10)
    assert decoder.mid_frame
    assert sum(map(len, decoder._parts)) == 10


def test_reads_may_be_bytearrays() -> None:
    stream = bytearray(frame_of(3, [b"abc"]) + frame_of(4, [b"d", b"", b"ef"]))
    first, second = FrameDecoder().feed(stream)  # type: ignore[arg-type]
    stream[:] = bytes(len(stream))
    assert (first, second) == (Frame(3, b"abc"), Frame(4, b"def"))
    assert type(first.content) is bytes
