"""What clients of the Java system sent to a Master, and how to send it again."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytubemq.model.ids import Address
from pytubemq.model.records import BrokerRecord, ClusterRecord, DeployRecord, Stamp, TopicProps, TopicRecord
from pytubemq.storage.metastore.sqlite import SqliteMetaStore
from pytubemq.wire.framing.frame import FrameDecoder
from pytubemq.wire.rpc.envelope import decode_request, decode_response
from pytubemq.wire.rpc.methods import METHODS
from pytubemq.wire.serialization.message_bytes import decode
from tests.scenario.master.town import FakeBroker, Town

if TYPE_CHECKING:
    from pytubemq.net.client.connection import RpcConnection

VECTORS = Path(__file__).parents[2] / "vectors"
SERIAL_ID = 1795199516929
ONE = BrokerRecord(1, Address("127.0.0.1", 8123))
TWO = BrokerRecord(2, Address("127.0.0.2", 28123))
TOPICS = {
    "demo": {1: TopicProps(num_partitions=3), 2: TopicProps(num_partitions=2)},
    "multi": {1: TopicProps(num_partitions=2, num_topic_stores=2)},
    "filt": {1: TopicProps(num_partitions=1)},
    "big": {1: TopicProps(num_partitions=1)},
    "flow": {1: TopicProps(num_partitions=1)},
}
SIZES = {"big": 4 << 20}


def prepare(path: Path, *brokers: BrokerRecord) -> None:
    """Metadata as the recorded cluster had it."""
    store = SqliteMetaStore(path / "meta.db")
    ids = {broker.broker_id for broker in brokers}
    deploys = [
        DeployRecord(name, broker_id, props=props)
        for name, places in TOPICS.items()
        for broker_id, props in places.items()
        if broker_id in ids
    ]
    topics = [TopicRecord(name, max_message_bytes=SIZES.get(name, 1 << 20)) for name in {d.topic for d in deploys}]
    store.apply([ClusterRecord(stamp=Stamp(serial_id=SERIAL_ID)), *brokers, *topics, *deploys], [])
    store.close()


def recorded(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The requests of a file with their answers, in order."""
    lines = [json.loads(line) for line in (VECTORS / name).read_text().splitlines()]
    answers = {line["pair"]: line for line in lines if line["direction"] == "response"}
    return [(line, answers[line["pair"]]) for line in lines if line["direction"] == "request"]


def body(line: dict[str, Any]) -> bytes:
    (frame,) = FrameDecoder().feed(bytes.fromhex(line["frame_hex"]))
    return (decode_request if line["direction"] == "request" else decode_response)(frame).body


def field_set(message: Any) -> set[str]:
    """What is there; an empty list is not."""
    return {field.name for field in fields(message) if getattr(message, field.name) not in (None, ())}


async def ask(connection: RpcConnection, line: dict[str, Any], request: bytes) -> Any:
    spec = METHODS[line["method"]]
    answer = await connection.call(line["method"], line["service"], request, timeout_s=10)
    return decode(spec.response, answer.body)


async def two_brokers(t: Town) -> None:
    for record in (ONE, TWO):
        broker = await t.peer(FakeBroker, broker_id=record.broker_id, address=record.address)
        await broker.register()
        await broker.heartbeat()
