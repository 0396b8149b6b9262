"""Frames: token, serial number, number of blocks, blocks; the content is that of the blocks, one after the other.

The invariant: no length read from a peer makes us hold more than the limits say, and the same bytes give the same
frames however they were cut into reads. Where one block ends and the next begins carries no meaning.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytubemq.errors import FrameError
from pytubemq.model.limits import BLOCK_BYTES, MAX_FRAME_BLOCKS, MAX_FRAME_BYTES, MAX_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

# The original's mark. Its top byte is no ASCII, so HTTP and TLS differ from it in their first byte.
TOKEN: Final = 0xFF7FF4FE

FRAME_HEAD: Final = struct.Struct(">Iii")
"""The start of every frame: token, serial, number of blocks; each block begins with its size."""
_LENGTH: Final = struct.Struct(">i")
ONE_BLOCK: Final = struct.Struct(">Iiii")
"""The bytes before the content of a frame of one block: token, serial, 1, size."""


class Frame(NamedTuple):
    """One whole frame; `serial` ties a response to its request."""

    serial: int
    content: bytes


def encode_frame(serial: int, parts: Sequence[bytes], *, block_bytes: int | None = BLOCK_BYTES) -> list[bytes]:
    """Encode a frame as buffers for `writelines`; its content, the parts, is not copied if one block takes it all.

    Args:
        serial: the request's number, a signed 32-bit value.
        parts: the content in pieces, in order.
        block_bytes: the size at which the content is cut, as peers that have not shown BIG_BLOCKS need it; None puts
            it all into one block.

    Raises:
        FrameError: the content is larger than any peer takes.
    """
    size = sum(map(len, parts))
    if block_bytes is None or size <= block_bytes:
        if size > MAX_FRAME_BYTES:
            raise _too_large(size)
        return [ONE_BLOCK.pack(TOKEN, serial, 1, size), *parts]
    # Rounded up: the last block may be shorter.
    count = -(-size // block_bytes)
    if size > MAX_FRAME_BYTES or count > MAX_FRAME_BLOCKS:
        raise _too_large(size)
    # One copy here, so that each block is a slice whatever the borders of the parts were.
    content = memoryview(b"".join(parts))
    buffers = [FRAME_HEAD.pack(TOKEN, serial, count)]
    # The last block is never empty: C++ clients close the connection on one that is.
    for start in range(0, size, block_bytes):
        block = content[start : start + block_bytes]
        buffers.append(_LENGTH.pack(len(block)))
        buffers.append(bytes(block))
    return buffers


def _too_large(size: int) -> FrameError:
    error = FrameError(
        f"{size} bytes do not fit into a frame, which takes {MAX_FRAME_BYTES}",
        hint="send less at once: smaller messages or smaller batches",
    )
    # Errors of the wire are the peer's fault unless they say otherwise; this frame is our own.
    error.remote = False
    return error


FRONT_BYTES: Final = 2 * MAX_HEADER_BYTES + 64
"""Bytes of a frame's content that suffice to find its method: two headers, their lengths, the body's first field."""
_LARGE_BYTES: Final = 1024
"""Pieces of a frame from this size up are kept as they are until it is whole; smaller ones are put together to it."""


class FrameDecoder:
    """A decoder from the bytes of a stream to frames; knows no socket.

    Small frames are cut straight out of the read they came in. A frame that spans reads is gathered and joined once, so
    each byte is moved a bounded number of times, and memory follows what has arrived, not what a length claims.
    """

    __slots__ = (
        "_allowed_bytes",
        "_blocks",
        "_dead",
        "_max_blocks",
        "_max_bytes",
        "_missing",
        "_parts",
        "_rest",
        "_serial",
        "_size",
        "_undecided",
        "_usual_bytes",
    )

    def __init__(
        self,
        *,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_blocks: int = MAX_FRAME_BLOCKS,
        usual_frame_bytes: int | None = None,
    ) -> None:
        """Accept frames up to `usual_frame_bytes`, and larger ones only up to the size that `_bound` allows."""
        self._max_bytes = max_frame_bytes
        self._usual_bytes = max_frame_bytes if usual_frame_bytes is None else usual_frame_bytes
        self._allowed_bytes = self._usual_bytes  # of the current frame, as far as is known
        self._undecided = False  # whether it claims more, and what it says has still to come
        self._max_blocks = max_blocks
        self._rest = b""  # the beginning of a header or of a block's length: at most 11 bytes
        self._blocks = 0  # blocks of the current frame whose length is not read yet, or whose bytes are not all here
        self._missing = -1  # bytes the current block still lacks; -1 when its length comes next
        self._parts: list[bytes | bytearray] = []  # the content so far, and its size
        self._size = 0
        self._serial = 0
        self._dead: str | None = None

    @property
    def mid_frame(self) -> bool:
        """True if a frame has begun and is not complete yet."""
        return self._blocks > 0 or bool(self._rest)

    @property
    def buffered_bytes(self) -> int:
        """Bytes kept of a frame that is not complete yet."""
        return self._size + len(self._rest)

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes, in order.

        Raises:
            FrameError: the stream is not the protocol. Nothing more can be read from it: every later call raises the
                same again. Frames completed by the same `data` are lost with it.
        """
        if self._dead is not None:
            raise FrameError(self._dead)
        try:
            return self._feed(data)
        except FrameError as error:
            # A stream that was misread once cannot be brought back in step: nothing marks where the next frame would
            # begin.
            self._dead = error.message
            self._rest = b""
            self._parts = []
            raise

    def _feed(self, data: bytes) -> list[Frame]:
        frames: list[Any] = []
        if self._rest:
            # The rest is 11 bytes at most, so a read is copied once for it and a frame never again and again.
            data = self._rest + data
            self._rest = b""
        position, end = 0, len(data)
        while True:
            if self._blocks == 0:
                position = self._cut(data, position, frames)
                # Less than token, serial and number of blocks: kept until the next read.
                if end - position < 12:
                    break
                # Checked before the first block's length comes, so that noise is refused at once and not waited for.
                self._open(*FRAME_HEAD.unpack_from(data, position))
                position += 12
            if self._missing < 0:
                if end - position < 4:
                    break
                (length,) = _LENGTH.unpack_from(data, position)
                self._check_block(length)
                position += 4
                if self._blocks == 1 and not self._size and end - position >= length and not self._undecided:
                    # the usual frame: one block (left), all of it here; a bytes object even if fed a bytearray
                    frames.append(Frame(self._serial, bytes(data[position : position + length])))
                    position += length
                    self._blocks = 0
                    continue
                # The frame spans reads: from here on its bytes are gathered, and `_missing` counts those to come.
                self._missing = length
            taken = min(self._missing, end - position)
            self._gather(data[position : position + taken])
            position += taken
            self._missing -= taken
            if self._undecided:
                self._decide(self._size + self._missing)
            if self._missing:
                break
            self._missing = -1
            self._blocks -= 1
            if self._blocks == 0:
                frames.append(self._whole(self._serial, self._parts, self._size))
                self._parts = []
                self._size = 0
        if position < end:
            self._rest = bytes(data[position:])
            if self._blocks == 0:
                self._check_token(self._rest)
        return frames

    def _cut(self, data: bytes, position: int, frames: list[Any]) -> int:
        """Cut out whole frames of one block, from `position` on; where the first other one begins."""
        end, most = len(data), self._usual_bytes
        unpack, new, append = ONE_BLOCK.unpack_from, tuple.__new__, frames.append
        while end - position >= ONE_BLOCK.size:
            token, serial, blocks, length = unpack(data, position)
            start = position + ONE_BLOCK.size
            stop = start + length
            # Whatever is not the usual frame is left to the slower way, which also words the errors.
            if token != TOKEN or blocks != 1 or not 0 <= length <= most or stop > end:
                break
            append(new(Frame, (serial, bytes(data[start:stop]))))  # half the time of calling the class
            position = stop
        return position

    def _whole(self, serial: int, parts: list[bytes | bytearray], size: int) -> Any:
        """Return a frame whose content came in parts of together `size` bytes."""
        return Frame(serial, b"".join(parts))

    def _gather(self, part: bytes) -> None:
        """Keep a piece of the content: large ones as they came, small ones put together, so that few are held."""
        self._size += len(part)
        last = self._parts[-1] if self._parts else None
        if len(part) >= _LARGE_BYTES:
            self._parts.append(bytes(part))
        # A peer that sends single bytes must not cost an object for each of them.
        elif isinstance(last, bytearray) and len(last) < _LARGE_BYTES:
            last += part
        elif part:
            self._parts.append(bytearray(part))

    def _open(self, token: int, serial: int, blocks: int) -> None:
        if token != TOKEN:
            raise FrameError(f"a frame begins with 0x{TOKEN:08x}, this one with 0x{token:08x}", hint=_NOT_TUBEMQ)
        if not 1 <= blocks <= self._max_blocks:
            raise FrameError(f"frame {serial} claims {blocks} blocks; 1 to {self._max_blocks} are allowed")
        self._serial = serial
        self._blocks = blocks
        self._allowed_bytes = self._usual_bytes
        self._undecided = False

    def _check_token(self, head: bytes) -> None:
        """Refuse noise at its first wrong byte instead of waiting for a header of it."""
        # Fewer than four bytes may be all there is yet; those that are there must be the token's.
        known = min(len(head), 4)
        if head[:known] != _TOKEN_BYTES[:known]:
            raise FrameError(
                f"a frame begins with 0x{TOKEN:08x}, this one with 0x{head[:known].hex()}", hint=_NOT_TUBEMQ
            )

    def _check_block(self, length: int) -> None:
        # 0 is taken, as Java takes it (C++ closes the connection). The number of blocks is bounded, so it costs
        # nothing.
        if length < 0:
            raise FrameError(f"frame {self._serial} has a block of {length} bytes")
        # Checked against what the blocks claim together, before any of it arrives: memory follows what has come.
        total = self._size + length
        if total > self._max_bytes:
            raise self._too_many(total, self._max_bytes)
        if total > self._allowed_bytes:
            self._decide(total)

    def _decide(self, total: int) -> None:
        """Accept or refuse a frame of at least `total` bytes, or wait for the bytes that decide it."""
        front = b""
        for part in self._parts:
            front += part[: FRONT_BYTES - len(front)]
            if len(front) == FRONT_BYTES:
                break
        # Most methods have small requests. The front of the content says which one it is, so a large frame is let in
        # only once its method is known to need it.
        bound = self._bound(self._serial, front)
        # Not known with the whole front at hand: a peer that puts the method elsewhere has the usual bound.
        self._undecided = bound is None and len(front) < FRONT_BYTES
        if self._undecided:
            return
        self._allowed_bytes = self._usual_bytes if bound is None else min(bound, self._max_bytes)
        if total > self._allowed_bytes:
            raise self._too_many(total, self._allowed_bytes)

    def _bound(self, serial: int, front: bytes) -> int | None:
        """Return how large a frame may be whose content begins with `front`; None if that is not known (yet)."""
        return self._max_bytes

    def _too_many(self, total: int, allowed: int) -> FrameError:
        return FrameError(f"frame {self._serial} has {total} bytes or more; {allowed} are allowed")


_TOKEN_BYTES: Final = TOKEN.to_bytes(4, "big")
_NOT_TUBEMQ: Final = "the peer does not speak TubeMQ's protocol, or speaks TLS"
