"""Requests recorded from the original's clients, sent to our Broker: same codes, same fields in the answers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.model.limits import MIB
from pytubemq.model.topic import TopicConfig
from pytubemq.wire.framing.frame import Frame, FrameDecoder
from pytubemq.wire.protobuf.schema import Status, proto_name
from pytubemq.wire.rpc.envelope import decode_response
from pytubemq.wire.rpc.methods import METHODS
from pytubemq.wire.serialization.message_bytes import decode
from tests.scenario.broker.support import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.broker.service import BrokerService

pytestmark = pytest.mark.anyio

VECTORS = Path(__file__).parents[2] / "vectors"
TOPICS = (
    TopicConfig("demo", 3),
    TopicConfig("multi", 2, stores=2),
    TopicConfig("filt", 1),
    TopicConfig("big", 1, max_message_bytes=4 * MIB),
    TopicConfig("flow", 1),
    TopicConfig("__offset_history__", 10),
)
ANY_BROKER_METHOD = {13, 14, 15, 16, 17, 18, 99}
OURS_ON_PURPOSE = {
    # The original makes a new store for any partition id whose low part is good; ours has only its own partitions.
    "b_send_unknown_store.send_message.200.1": 403,
    # There the first fetch took a part, here all there was, and the commit before this one confirmed it.
    "b_consumer_cycle.get_message.200.3": 404,
}


@dataclasses.dataclass
class Pair:
    name: str
    frame: bytes
    code: int | str
    fields: frozenset[str]
    answer: dict[str, Any]


def pairs(file: str) -> Iterator[Pair]:
    """The requests to a Broker and what the original answered, in the order recorded."""
    found: dict[str, dict[str, Any]] = {}
    for line in (VECTORS / file).read_text().splitlines():
        frame = json.loads(line)
        # by-hand.jsonl also has requests that went to a Master, by mistake and on purpose: their names begin with m_
        if frame["method"] in ANY_BROKER_METHOD and not frame["name"].startswith("m_"):
            found.setdefault(frame["pair"], {})[frame["direction"]] = frame
    for name, both in found.items():
        if len(both) == 2:
            answer = both["response"]
            body: dict[str, Any] = next(
                (v for k, v in answer["decoded"].items() if k.endswith(("B2P", "B2C", "ExceptionBody"))), {}
            )
            request = bytes.fromhex(both["request"]["frame_hex"])
            yield Pair(name, request, answer["err_code"], frozenset(body), body)


async def exchange(broker: BrokerService, frames: list[bytes]) -> list[tuple[int | str, frozenset[str], Any]]:
    """Send frames one after the other on one connection; code, fields and decoded answer of each."""
    reader, writer = await asyncio.open_connection(broker.address.host, broker.address.port)
    decoder = FrameDecoder()
    answers: list[tuple[int | str, frozenset[str], Any]] = []
    for frame in frames:
        writer.write(frame)
        got: list[Frame] = []
        while not got:
            async with asyncio.timeout(10):
                data = await reader.read(65536)
            assert data, "the connection must stay open"
            got = decoder.feed(data)
        response = decode_response(got[0])
        if response.status is not Status.SUCCESS:
            answers.append(("exception", frozenset({"exceptionName", "stackTrace"}), response))
            continue
        message: Any = decode(METHODS[response.method].response, response.body)
        present = {
            proto_name(field.name)
            for field in dataclasses.fields(message)
            if getattr(message, field.name) not in (None, ())
        }
        answers.append((message.err_code, frozenset(present), message))
    writer.close()
    await writer.wait_closed()
    return answers


async def test_what_producers_send() -> None:
    recorded = list(pairs("producer-broker.jsonl"))
    assert len(recorded) >= 9
    async with running(topics=TOPICS) as broker:
        answers = await exchange(broker, [pair.frame for pair in recorded])
    for pair, (code, fields, answer) in zip(recorded, answers, strict=True):
        assert (code, fields) == (pair.code, pair.fields), pair.name
        assert answer.err_msg == str(answer.message_id), "old clients read the id from here"


async def test_errors_and_a_consumers_life_made_by_hand() -> None:
    recorded = list(pairs("by-hand.jsonl"))
    assert len(recorded) >= 40
    async with running(topics=TOPICS) as broker:
        answers = await exchange(broker, [pair.frame for pair in recorded])
    for pair, (code, fields, answer) in zip(recorded, answers, strict=True):
        expected = OURS_ON_PURPOSE.get(pair.name, pair.code)
        assert code == expected, (pair.name, answer)
        if pair.name in OURS_ON_PURPOSE:
            continue
        optional = {"messages"}  # how many messages one fetch takes is the server's own affair
        assert fields - optional == pair.fields - optional, pair.name
        if code == "exception":
            assert answer.exception_name == pair.answer["exceptionName"], pair.name
        for offset in ("currOffset", "maxOffset"):
            if pair.answer.get(offset) == -1:
                assert answer.curr_offset == -1, pair.name


async def test_frames_of_many_blocks() -> None:
    recorded = [pair for pair in pairs("multi-block.jsonl") if pair.name.startswith("send")]
    assert recorded
    async with running(topics=TOPICS) as broker:
        answers = await exchange(broker, [pair.frame for pair in recorded])
    assert [(code, fields) for code, fields, _ in answers] == [(pair.code, pair.fields) for pair in recorded]


async def test_what_consumers_send() -> None:
    """The recording has several clients and two Brokers in it, so codes depend on who came before; fields do not."""
    recorded = list(pairs("consumer-broker.jsonl"))
    known: dict[tuple[str, int | str], set[frozenset[str]]] = {}
    for pair in recorded + list(pairs("by-hand.jsonl")):
        method = pair.name.split(".")[-3]
        known.setdefault((method, pair.code), set()).add(pair.fields - {"messages", "failureInfo"})
    async with running(topics=TOPICS) as broker:
        answers = await exchange(broker, [pair.frame for pair in recorded])
    codes = set()
    for pair, (code, fields, answer) in zip(recorded, answers, strict=True):
        method = pair.name.split(".")[0]
        assert fields - {"messages", "failureInfo"} in known[method, code], (pair.name, answer)
        codes.add((method, code))
    assert {("get_message", 404), ("consumer_register_broker", 200), ("commit_offset", 200)} <= codes
