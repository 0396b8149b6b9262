"""Bytes that are cut, padded and marked in ways which our own clients never use, to a Master and to a Broker."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.wire.protocol.messages.broker import HeartBeatRequestC2B, HeartBeatResponseB2C
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.serialization.message_bytes import decode, encode

from .cpp import WAYS as CPP
from .foreign import BLOCK, TOKEN, Fault, Foreign, content, frame, frame_of
from .go import WAYS as GO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]


class Question(NamedTuple):
    """A request that needs nothing to be there, and its answer."""

    address: str
    service: int
    method: int
    body: bytes
    answer: type


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture(params=["Master", "Broker"])
def question(request: pytest.FixtureRequest, running: EmbeddedCluster) -> Question:
    if request.param == "Master":
        return Question(running.master, 1, 3, encode(CloseRequestP2M(client_id="p1")), CloseResponseM2P)
    beat = HeartBeatRequestC2B(client_id="c1", group_name="g", read_status=0)
    return Question(running.brokers[1], 2, 16, encode(beat), HeartBeatResponseB2C)


@pytest.fixture
async def peer(question: Question) -> AsyncIterator[Foreign]:
    link = await Foreign.connect(CPP, question.address)
    yield link
    await link.close()


async def answered(peer: Foreign, question: Question, *serials: int) -> None:
    """The answers of these requests come, in order."""
    for serial in serials:
        got, inside = await peer.read_frame()
        assert got == serial
        body = peer.open(inside, question.method)
        assert isinstance(body, bytes)
        assert decode(question.answer, body).err_code in (200, 411)


def inside(question: Question, ways: object = CPP) -> bytes:
    return content(ways, question.method, question.body, service=question.service)  # type: ignore[arg-type]


def test_the_zeros_behind_a_request_are_those_of_cpp() -> None:
    for size, zeros in ((10, 9), (200, 8), (20_000, 7), (3_000_000, 6)):
        padded = content(CPP, 13, bytes(range(1, 11)) * (size // 10), service=3)
        assert len(padded) - len(padded.rstrip(b"\0")) == zeros
    assert not content(GO, 13, b"x", service=2).endswith(b"\0")


@pytest.mark.parametrize("ways", [CPP, GO], ids=["C++", "Go"])
async def test_a_request_in_one_piece(peer: Foreign, question: Question, ways: object) -> None:
    await peer.write(frame(7, inside(question, ways)))
    await answered(peer, question, 7)


@pytest.mark.parametrize("zeros", range(10))
async def test_zeros_behind_the_body(peer: Foreign, question: Question, zeros: int) -> None:
    await peer.write(frame(1, inside(question, GO) + bytes(zeros)))
    await peer.write(frame(2, inside(question, GO)))
    await answered(peer, question, 1, 2)


async def test_blocks_of_five_bytes(peer: Foreign, question: Question) -> None:
    await peer.write(frame(1, inside(question), block=5))
    await answered(peer, question, 1)


@pytest.mark.parametrize("where", ["first", "middle", "last"])
async def test_an_empty_block(peer: Foreign, question: Question, where: str) -> None:
    whole = inside(question)
    half = len(whole) // 2
    blocks = {
        "first": [b"", whole],
        "middle": [whole[:half], b"", whole[half:]],
        "last": [whole, b""],
    }[where]
    await peer.write(frame_of(1, blocks))
    await answered(peer, question, 1)
    await peer.write(frame(2, whole))
    await answered(peer, question, 2)


async def test_one_byte_at_a_time(peer: Foreign, question: Question) -> None:
    for byte in frame(1, inside(question)):
        await peer.write(bytes([byte]))
    await answered(peer, question, 1)


async def test_three_requests_in_one_write(peer: Foreign, question: Question) -> None:
    await peer.write(b"".join(frame(serial, inside(question)) for serial in (0, 1, 2)))
    await answered(peer, question, 0, 1, 2)


async def test_one_large_block(peer: Foreign, question: Question) -> None:
    await peer.write(frame_of(1, [inside(question, GO) + bytes(5 * BLOCK)]))
    await answered(peer, question, 1)


async def test_serial_numbers_of_any_sign_come_back(peer: Foreign, question: Question) -> None:
    for serial in (0, -1, 2**31 - 1, -(2**31)):
        await peer.write(frame(serial, inside(question)))
        await answered(peer, question, serial)


@pytest.mark.parametrize("timeout_ms", [None, 0], ids=["absent", "zero"])
async def test_a_request_without_a_timeout_is_answered(
    peer: Foreign, question: Question, timeout_ms: int | None
) -> None:
    # the original would never answer; ours takes its usual time for granted
    silent = peer.speaking(timeout_ms=timeout_ms)
    await peer.write(frame(1, inside(question, silent.ways)))
    await answered(peer, question, 1)


async def test_a_method_that_does_not_exist_leaves_the_connection_as_it_is(peer: Foreign, question: Question) -> None:
    for method in (0, 11, 12, 14, 19, 23, 100, 10_000):
        answer = await peer.exchange(method, b"", service=question.service)
        assert isinstance(answer, Fault)
        assert (answer.status, answer.name) == (2, "java.lang.Exception")
        assert answer.text.endswith(f"Unsupported method ID :{method}")
    await peer.write(frame(50, inside(question)))
    await answered(peer, question, 50)


async def test_a_service_that_is_not_here_is_told(peer: Foreign, question: Question) -> None:
    for service, said in ((0, "Service Type is invalid!"), (9, "Service Type is invalid!"), (4, "No service 4 found")):
        answer = await peer.exchange(question.method, question.body, service=service)
        assert isinstance(answer, Fault)
        assert answer.status == 1
        assert answer.text.startswith(said)
    await peer.write(frame(50, inside(question)))
    await answered(peer, question, 50)


@pytest.mark.parametrize("cut", [1, 3, 5, 9])
async def test_an_envelope_that_ends_too_soon_is_told_and_the_next_request_served(
    peer: Foreign, question: Question, cut: int
) -> None:
    await peer.write(frame(1, inside(question, GO)[:cut]))
    serial, told = await peer.read_frame()
    answer = peer.open(told, question.method)
    assert serial == 1
    assert isinstance(answer, Fault)
    assert answer.status == 2
    await peer.write(frame(2, inside(question)))
    await answered(peer, question, 2)


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">Iii", TOKEN + 1, 1, 1),
        struct.pack(">Iii", TOKEN, 1, 0),
        struct.pack(">Iii", TOKEN, 1, -1),
        struct.pack(">Iii", TOKEN, 1, 3585),
        struct.pack(">Iiii", TOKEN, 1, 1, -1),
        struct.pack(">Iiii", TOKEN, 1, 1, 2**31 - 1),
    ],
    ids=["token", "no blocks", "negative blocks", "too many blocks", "negative length", "two GiB"],
)
async def test_what_is_no_frame_ends_its_connection_and_no_other(
    peer: Foreign, question: Question, head: bytes
) -> None:
    bad = await Foreign.connect(CPP, question.address)
    await bad.write(head)
    assert await bad.reader.read() == b"", "closed, and nothing said"
    await bad.close()
    await peer.write(frame(1, inside(question)))
    await answered(peer, question, 1)
