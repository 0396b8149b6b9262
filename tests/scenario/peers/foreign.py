"""A client that is not ours, down to its bytes.

Nothing here uses our framing or envelope: frames are put together and taken apart by hand, as strictly as the client
with the narrowest limits would (C++), so that what it could not read fails here too. Only the business messages
inside are ours.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from pytubemq.model.ids import Address
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

TOKEN = 0xFF7FF4FE
BLOCK = 8192
MOST_BLOCKS = 1024
"""C++ closes the connection at more, and at a block that is empty or longer than BLOCK."""
ANSWER_WITHIN_S = 20.0


@dataclass(frozen=True)
class Ways:
    """What a client's requests have of its own.

    `commit_flag` is the flag in the header of CommitOffset; `zeros` whether length prefixes are reserved with 4 bytes
    each, and what they do not need follows the body as zeros.
    """

    protocol_version: int
    first_serial: int
    zeros: bool = False
    commit_flag: int = 0
    send_service: int = 3
    timeout_ms: int | None = 10_000


@dataclass(frozen=True)
class Fault:
    """An exception as answer."""

    status: int
    name: str
    text: str


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def content(ways: Ways, method: int, body: bytes, *, service: int) -> bytes:
    """What a request's blocks hold."""
    flag = ways.commit_flag if method == 18 else 0
    timeout = b"" if ways.timeout_ms is None else b"\x10" + varint(ways.timeout_ms)
    parts = [
        b"\x08" + varint(flag),
        b"\x08" + varint(service) + b"\x10" + varint(ways.protocol_version),
        b"\x08" + varint(method) + timeout + b"\x1a" + varint(len(body)) + body,
    ]
    prefixes = [varint(len(part)) for part in parts]
    spare = sum(4 - len(prefix) for prefix in prefixes)
    return b"".join(prefix + part for prefix, part in zip(prefixes, parts, strict=True)) + bytes(
        spare if ways.zeros else 0
    )


def frame(serial: int, inside: bytes, *, block: int = BLOCK) -> bytes:
    """A frame with its content cut into blocks."""
    return frame_of(serial, [inside[at : at + block] for at in range(0, len(inside), block)])


def frame_of(serial: int, blocks: list[bytes]) -> bytes:
    """A frame with these blocks."""
    return struct.pack(">Iii", TOKEN, serial, len(blocks)) + b"".join(
        struct.pack(">i", len(block)) + block for block in blocks
    )


def fields(data: bytes) -> dict[int, Any]:
    """The fields of a protobuf message by number; of those that come more than once the last."""
    found: dict[int, Any] = {}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            found[key >> 3], at = read_varint(data, at)
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            size, at = read_varint(data, at)
            found[key >> 3], at = data[at : at + size], at + size
    return found


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def delimited(data: bytes) -> Iterator[bytes]:
    """Messages that stand one after the other, each behind its length."""
    at = 0
    while at < len(data):
        size, at = read_varint(data, at)
        assert at + size <= len(data)
        yield data[at : at + size]
        at += size


class Foreign:
    """A connection of such a client."""

    def __init__(self, ways: Ways, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.ways = ways
        self.reader = reader
        self.writer = writer
        self.serials = count(ways.first_serial)
        self.largest_blocks = 0
        """Of all answers so far."""

    @classmethod
    async def connect(cls, ways: Ways, address: str) -> Foreign:
        where = Address.parse(address)
        return cls(ways, *await asyncio.open_connection(where.host, where.port))

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()

    def speaking(self, **changed: Any) -> Foreign:
        """The same connection with other ways."""
        other = Foreign(replace(self.ways, **changed), self.reader, self.writer)
        other.serials = self.serials
        return other

    async def ask(self, message: Any, answer: type[T], method: int, service: int) -> T:
        """One request and its answer."""
        body = await self.exchange(method, encode(message), service=service)
        assert isinstance(body, bytes), body
        return decode(answer, body)

    async def exchange(self, method: int, body: bytes, *, service: int) -> bytes | Fault:
        """The same with bytes."""
        serial = next(self.serials)
        await self.write(frame(serial, content(self.ways, method, body, service=service)))
        got, inside = await self.read_frame()
        assert got == serial
        return self.open(inside, method)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_frame(self) -> tuple[int, bytes]:
        """The next frame, read with the narrowest limits that a client has."""
        async with asyncio.timeout(ANSWER_WITHIN_S):
            token, serial, blocks = struct.unpack(">Iii", await self.reader.readexactly(12))
            assert token == TOKEN
            assert 1 <= blocks <= MOST_BLOCKS, f"{blocks} blocks"
            parts = []
            for _ in range(blocks):
                (size,) = struct.unpack(">i", await self.reader.readexactly(4))
                assert 1 <= size <= BLOCK, f"a block of {size} bytes"
                parts.append(await self.reader.readexactly(size))
        self.largest_blocks = max(self.largest_blocks, blocks)
        return serial, b"".join(parts)

    def open(self, inside: bytes, method: int) -> bytes | Fault:
        """The business message in an answer; what only our own clients know must not be there."""
        head, response, body = delimited(inside)
        assert fields(head) == {1: 1}, "flag of an answer, and nothing else"
        status = fields(response).get(1, 0)
        found = fields(body)
        if status:
            return Fault(status, found[1].decode(), found[2].decode())
        assert fields(response) == {1: 0, 3: 3}
        assert found[1] == method
        assert isinstance(found[2], bytes)
        return found[2]


def crc(payload: bytes) -> int:
    """The checksum of a stored payload as all clients compute it."""
    return zlib.crc32(payload) & 0x7FFFFFFF


def address_as_int(host: str) -> int:
    """`sentAddr`: an IPv4 address as a signed number."""
    (value,) = struct.unpack(">i", bytes(map(int, host.split("."))))
    return int(value)
