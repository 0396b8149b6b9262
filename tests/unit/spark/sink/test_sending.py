"""Rows of one task on their way: bounded, acknowledged, and named when they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pytubemq.sync
from pytubemq.errors import Code, ConfigError, TubeError
from pytubemq.model.ids import Partition
from pytubemq.net.iothread import IoThread
from pytubemq.server.cluster import ThreadedCluster
from pytubemq.spark.sink.identity import Identity
from pytubemq.spark.sink.options import SinkOptions, parse_options
from pytubemq.spark.sink.partition_choice import STRIPE_ROWS
from pytubemq.spark.sink.rows import Rows
from pytubemq.spark.sink.sending import Sending, Sent
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.model.message import Message

MIB = 1 << 20


@pytest.fixture
def mock() -> Iterator[MockBroker]:
    io = IoThread()
    made = MockBroker(topics={"demo": 2, "other": 1})
    io.run(made.start())
    yield made
    io.run(made.stop())
    io.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadedCluster]:
    with ThreadedCluster() as running:
        for topic in ("demo", "other", "numbers", "again"):
            running.create_topic(topic, partitions=3)
        yield running


def options(master: str, topic: str | None = "demo", **more: str) -> SinkOptions:
    named = {} if topic is None else {"topic": topic}
    return parse_options({"master": master, **named, **more}, streaming=False)


def stored(master: str, topic: str) -> list[Message]:
    with pytubemq.sync.connect(master) as tube:
        found: list[Message] = []
        for partition in tube.partitions(topic):
            with tube.reader(partition, start="earliest", end="latest") as reader:
                found += [message for batch in reader.batches() for message in batch.messages]
    return found


def test_what_is_not_acknowledged_is_bounded_over_all_topics(cluster: ThreadedCluster) -> None:
    asked = options(cluster.master, None, maxBufferBytes=str(4 * MIB))
    bodies = [b"x" * 10_000] * 3_000
    topics = ["demo", "other"] * 1_500
    most = 0
    with pytubemq.sync.connect(cluster.master) as tube, Sending(tube, asked, where="here") as sending:
        for start in range(0, 3_000, 100):
            sending.put(Rows(start, bodies[start : start + 100], topics=topics[start : start + 100]))
            most = max(most, sending.unanswered_bytes)
        sent = sending.finish()
        assert sending.unanswered_bytes == 0
    assert most <= 4 * MIB
    assert (sent.messages, sent.size_bytes, sent.repeated) == (3_000, 30_000_000, 0)
    assert len(stored(cluster.master, "demo")) == len(stored(cluster.master, "other")) == 1_500


@pytest.mark.slow
def test_rows_by_number_stand_where_their_numbers_say_however_they_come_in(cluster: ThreadedCluster) -> None:
    asked = options(cluster.master, "numbers", idempotent="true", planIsMapOnly="true")
    count = 2 * STRIPE_ROWS + 500
    types = ["a" if n % 2 else None for n in range(count)]
    for step in (count, 700, 4_096):
        with pytubemq.sync.connect(cluster.master) as tube:
            where = tuple(sorted(tube.partitions("numbers")))
            identity = Identity("query", 3, 1)
            with Sending(tube, asked, where="here", identity=identity, partitions=where) as sending:
                for start in range(0, count, step):
                    some = range(start, min(start + step, count))
                    rows = Rows(start, [b"%d" % n for n in some], types=[types[n] for n in some])
                    sending.put(rows)
                sending.finish()
    found = stored(cluster.master, "numbers")
    assert sorted(int(message.body) for message in found) == list(range(count))
    assert all(message.attributes["seq"].encode() == message.body for message in found)
    for stripe in range(3):
        of_stripe = [message for message in found if int(message.body) // STRIPE_ROWS == stripe]
        assert len({message.partition for message in of_stripe}) == 1
        assert [int(message.body) for message in of_stripe] == sorted(int(message.body) for message in of_stripe)


def numbered(cluster: ThreadedCluster, rows: Rows, *, part: int) -> Sent:
    asked = options(cluster.master, "again", idempotent="true", planIsMapOnly="true")
    with pytubemq.sync.connect(cluster.master) as tube:
        where = tuple(sorted(tube.partitions("again")))
        identity = Identity("query", 0, part)
        with Sending(tube, asked, where=f"Spark partition {part}", identity=identity, partitions=where) as sending:
            sending.put(rows)
            return sending.finish()


@pytest.mark.parametrize("kind", ["attributes", "types", "together"])
def test_a_row_is_compared_with_what_was_sent_under_its_number_however_it_travels(
    cluster: ThreadedCluster, kind: str
) -> None:
    part = ["attributes", "types", "together"].index(kind)
    count = 3 if kind == "types" else 20

    def rows(bodies: list[bytes], *, site: str = "A") -> Rows:
        if kind == "types":  # each run of one type is sent alone
            return Rows(0, bodies, types=[site, "b", "a"])
        return Rows(0, bodies, attributes=[{"site": site}] * count if kind == "attributes" else None)

    bodies = [b"%d" % n for n in range(count)]
    other = [b"other", *bodies[1:]]
    swapped = [bodies[0], bodies[2], bodies[1], *bodies[3:]]
    assert numbered(cluster, rows(bodies), part=part).repeated == 0
    numbered(cluster, rows(bodies), part=part)
    with pytest.raises(ConfigError, match=f"row 0 of Spark partition {part} was sent before under the same number"):
        numbered(cluster, rows(other), part=part)
    with pytest.raises(ConfigError, match=f"row 1 of Spark partition {part} was sent before under the same number"):
        numbered(cluster, rows(swapped), part=part)
    if kind != "together":
        with pytest.raises(ConfigError, match=f"row 0 of Spark partition {part} was sent before under the same number"):
            numbered(cluster, rows(bodies, site="B"), part=part)
    there = [message for message in stored(cluster.master, "again") if message.attributes["pid"] == str(part)]
    assert sorted(int(message.body) for message in there) == list(range(count))


def test_a_java_broker_is_not_asked_what_stands_there() -> None:
    io = IoThread()
    java = MockBroker(topics={"demo": 1}, capabilities=Capability(0))
    io.run(java.start())
    try:
        asked = options(java.masters, idempotent="true", planIsMapOnly="true")
        with pytubemq.sync.connect(java.masters) as tube:
            identity, where = Identity("query", 0, 0), (Partition(1, "demo", 0),)
            with Sending(tube, asked, where="here", identity=identity, partitions=where) as sending:
                sending.put(Rows(0, [b"1", b"2"]))
                assert sending.finish().messages == 2
        assert not java.received(Method.READ_RANGE_C2B)
    finally:
        io.run(java.stop())
        io.close()


def test_rows_that_are_not_delivered_are_named_with_the_cause(mock: MockBroker) -> None:
    for method in (Method.SEND_MESSAGE_P2B, Method.SEND_PACKS_P2B):
        mock.fail_next(method, code=Code.PARTITION_UNPUBLISHABLE, text="not here", times=1_000)
    asked = options(mock.masters, deliveryTimeout="1s")
    rows = Rows(50, [b"a"] * 20, partitions=[Partition(1, "demo", 0)] * 20)
    with pytubemq.sync.connect(mock.masters) as tube, Sending(tube, asked, where="Spark partition 4") as sending:
        sending.put(rows)
        with pytest.raises(TubeError) as caught:
            sending.finish()
    assert "of rows 50 to 69 of Spark partition 4 not delivered to topic 'demo'" in str(caught.value)
    assert "not here" in str(caught.value)
