"""Hostile producers, consumers and Brokers: raw connections that send requests which are nearly right, and worse.

The invariant: seed and number alone determine a case, whatever came before and whatever the server answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.errors import FrameError
from pytubemq.testing.hostile.corruption import corrupt
from pytubemq.testing.hostile.packs import bad_columns
from pytubemq.testing.hostile.requests import bulk, sound
from pytubemq.testing.hostile.values import Scene, Values
from pytubemq.wire.framing.frame import FRAME_HEAD, TOKEN, FrameDecoder, encode_frame
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.extensions import OURS
from pytubemq.wire.protocol.messages.extension import PackEntry, SendPacksRequestP2B
from pytubemq.wire.protocol.messages.rpc import RequestBody, RequestHeader, RpcConnHeader
from pytubemq.wire.rpc.envelope import encode_request
from pytubemq.wire.rpc.methods import METHODS, MethodSpec
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.ids import Address

KEPT: Final = 200
"""Cases that are kept for the report of a failure."""
WINDOW: Final = 16
"""Most requests in flight; responses are not awaited individually."""
ANSWER_WAIT_S: Final = 0.2
"""How long a request without a response (a long poll, or one that is never answered) delays the next ones."""


class Case(NamedTuple):
    """One hostile frame: its description, its bytes, and whether the connection can be used after it."""

    number: int
    how: str
    frame: bytes
    goes_on: bool


def make_case(
    number: int, seed: int, methods: Sequence[MethodSpec], scene: Scene, *, most_bytes: int = 64 * 1024
) -> Case:
    """Return the case of that number for a server that serves `methods`."""
    random = Random(f"{seed}:{number}")
    values = Values(random, scene, most_bytes=most_bytes)
    spec = random.choice(methods)
    roll = random.random()
    if roll < 0.02:
        return Case(number, "noise", _noise(values), goes_on=False)
    body, how = _body(spec, values)
    serial = number & 0x7FFFFFFF if roll < 0.97 else random.choice((0, -1, 1, 2**31 - 1, -(2**31)))
    capabilities = random.choice((None, 0, int(OURS), 2**63 - 1, 2**64 - 1, 1 << random.randrange(64)))
    if roll < 0.1:
        frame, broken = _bad_envelope(spec, serial, body, values)
        return Case(number, f"{spec.method.name}: {how}; {broken}", frame, goes_on=True)
    buffers = encode_request(
        serial,
        service=random.choice(sorted(spec.services)),
        method=spec.method,
        timeout_ms=random.choice((10_000, 10_000, 10_000, 1, 0, 2**31 - 1)),
        body=(body,),
        capabilities=capabilities,
        block_bytes=None if random.random() < 0.8 else 8192,
    )
    return Case(number, f"{spec.method.name}: {how}", b"".join(buffers), goes_on=True)


def _body(spec: MethodSpec, values: Values) -> tuple[bytes, str]:
    random = values.random
    message = sound(spec.request, values)
    if spec.request is SendPacksRequestP2B and random.random() < 0.4:
        entries = tuple(PackEntry(partition_id=values.partition_id(), data=bad_columns(values)) for _ in range(2))
        message = SendPacksRequestP2B(
            client_id=values.scene.client_id, topic_name=values.topic(), sent_addr=1, packs=entries
        )
    if random.random() < 0.02:
        message, how = bulk(spec.request, values, most_bytes=16 * values.most_bytes)
        return encode(message), how
    if random.random() < 0.25:
        return encode(message), "sound"
    if random.random() < 0.03:
        return random.randbytes(random.randrange(200)), "random bytes"
    bad = corrupt(spec.request, encode(message), values)
    return bad.body, bad.how


def _noise(values: Values) -> bytes:
    random = values.random
    return random.choice(
        (
            random.randbytes(random.randrange(1, 2_000)),
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01",
            FRAME_HEAD.pack(TOKEN, 1, random.choice((0, -1, 3_585, 2**31 - 1, -(2**31)))),
            FRAME_HEAD.pack(TOKEN, 1, 1)
            + random.choice((-1, -(2**31), 2**31 - 1, 29 << 20)).to_bytes(4, "big", signed=True),
            FRAME_HEAD.pack(TOKEN, 1, 2) + bytes(4) * 2,
        )
    )


def _bad_envelope(spec: MethodSpec, serial: int, body: bytes, values: Values) -> tuple[bytes, str]:
    """Return a frame with bad headers around an unchanged message, and its description."""
    random = values.random
    service = random.choice((*spec.services, 0, 1, 2, 3, 4, 9, -1))
    method = random.choice((int(spec.method), int(spec.method), 0, 11, 106, -1, 2**31 - 1))
    headers = [
        (RpcConnHeader, encode(RpcConnHeader(flag=random.choice((0, 0, 1, -1))))),
        (
            RequestHeader,
            encode(RequestHeader(service_type=service, protocol_ver=random.choice((0, 1, 2, 3, 2**31 - 1)))),
        ),
        (
            RequestBody,
            encode(RequestBody(method=method, timeout=random.choice((0, -1, 10_000, 2**63 - 1)), request=body)),
        ),
    ]
    which = random.randrange(4)
    if which < 3:
        bad = corrupt(headers[which][0], headers[which][1], values, times=1)
        headers[which] = (headers[which][0], bad.body)
        how = f"{headers[which][0].__name__} {bad.how}"
    else:
        how = f"service {service}, method {method}"
    content = b"".join(encode_varint(len(data)) + data for _, data in headers)
    if random.random() < 0.2:
        content = content[: random.randrange(len(content) + 1)]
    return b"".join(encode_frame(serial, [content], block_bytes=None)), how


class HostileClient:
    """A client that sends cases over successive connections; `last` has the newest, `answers` counts the responses."""

    def __init__(self, address: Address, seed: int, services: frozenset[int], scene: Scene) -> None:
        self.address = address
        self.seed = seed
        self.scene = scene
        self.methods = [spec for spec in METHODS.values() if spec.services & services]
        self.cases = 0
        self.answers = 0
        self.connections = 0
        self.kinds: Counter[str] = Counter()
        self.last: deque[Case] = deque(maxlen=KEPT)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._decoder = FrameDecoder()
        self._open = 0

    async def run(self, cases: int) -> None:
        """Send this many cases."""
        for _ in range(cases):
            case = make_case(self.cases, self.seed, self.methods, self.scene)
            self.cases += 1
            self.kinds[case.how.partition(":")[0]] += 1
            self.last.append(case)
            await self._send(case)
        await self.close()

    async def close(self) -> None:
        """Read the remaining responses, and close the connection."""
        with contextlib.suppress(ConnectionError, FrameError):
            await self._take(0)
        writer, self._writer, self._reader = self._writer, None, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _send(self, case: Case) -> None:
        try:
            if self._writer is None:
                await self._connect()
            assert self._writer is not None
            self._writer.write(case.frame)
            await self._writer.drain()
            self._open += 1
            if case.goes_on and self._open > WINDOW:
                await self._take(WINDOW // 2)
            elif not case.goes_on or self._open == 0:
                await self.close()
        except (ConnectionError, FrameError):
            self._open = 0
            await self.close()

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self.address.host, self.address.port)
        self._decoder = FrameDecoder()
        self._open = 0
        self.connections += 1

    async def _take(self, most_open: int) -> None:
        """Read responses until at most `most_open` are outstanding, or none arrives for a while.

        Raises:
            ConnectionError: the server ended the connection.
        """
        try:
            async with asyncio.timeout(ANSWER_WAIT_S):
                while self._open > most_open and self._reader is not None:
                    data = await self._reader.read(1 << 20)
                    if not data:
                        raise ConnectionResetError
                    found = len(self._decoder.feed(data))
                    self.answers += found
                    self._open -= found
        except TimeoutError:
            self._open = 0
