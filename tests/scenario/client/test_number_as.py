"""Numbers given from outside: what another process sent before is not stored again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pytubemq.sync
from pytubemq.errors import ClosedError, ConfigError, MessageError, NotAllowedError
from pytubemq.model.ids import Partition
from pytubemq.server.cluster import ThreadedCluster
from pytubemq.wire.batch.payload import encode_payload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.scenario

PRODUCER = 77


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreadedCluster]:
    with ThreadedCluster(data_dir=tmp_path) as running:
        running.create_topic("demo", partitions=1)
        yield running


def test_the_same_numbers_from_another_connection_are_repeats(cluster: ThreadedCluster) -> None:
    where = Partition(1, "demo", 0)
    bodies = [b"%d" % n for n in range(5_000)]
    for sent, repeated in ((bodies[:3_000], 0), (bodies, 2_999)):  # the first is sent by itself, to get acquainted
        with pytubemq.sync.connect(cluster.master) as tube:
            producer = tube.producer("demo")
            producer.number_as(PRODUCER, 5)
            with producer:
                receipts = producer.submit_many(sent, partition=where).result(30)
        assert receipts.repeated >= repeated
    with pytubemq.sync.connect(cluster.master) as tube, tube.reader(where, start="earliest", end="latest") as reader:
        assert [message.body for batch in reader.batches() for message in batch.messages] == bodies


def test_a_newer_epoch_begins_anew_and_shuts_the_older_one_out(cluster: ThreadedCluster) -> None:
    where = Partition(1, "demo", 0)
    with pytubemq.sync.connect(cluster.master) as tube:
        for epoch in (3, 4):
            producer = tube.producer("demo")
            producer.number_as(PRODUCER, epoch)
            with producer:
                assert producer.submit_many([b"a", b"b"], partition=where).result(30).repeated == 0
        producer = tube.producer("demo", delivery_timeout_s=3.0)
        producer.number_as(PRODUCER, 3)
        with producer, pytest.raises(NotAllowedError, match="epoch"):
            producer.submit_many([b"c"], partition=where).result(30)
        assert tube.offsets([where])[where][1] == 4 * 28


def test_payloads_with_attributes_of_their_own_go_as_packs(cluster: ThreadedCluster) -> None:
    where = Partition(1, "demo", 0)
    payloads = [encode_payload(b"%d" % n, {"n": str(n)}, msg_type="t", msg_time=None)[0] for n in range(300)]
    with pytubemq.sync.connect(cluster.master) as tube, tube.producer("demo") as producer:
        encoded = producer.encode_payloads(payloads, flag=1, msg_type="t")
        assert len(producer.submit_encoded(encoded, partition=where).result(30)) == 300
        with pytest.raises(MessageError, match="message 1: the message has"):
            producer.encode_payloads([b"a", b"b" * (2 << 20)], flag=0)
        with pytest.raises(MessageError, match="no message"):
            producer.encode_payloads([], flag=0)
        with tube.reader(where, start="earliest", end="latest") as reader:
            found = [message for batch in reader.batches() for message in batch.messages]
    assert [(message.body, message.attributes["n"], message.msg_type) for message in found] == [
        (b"%d" % n, str(n), "t") for n in range(300)
    ]


def test_numbers_are_given_before_the_producer_is_entered(cluster: ThreadedCluster) -> None:
    with pytubemq.sync.connect(cluster.master) as tube:
        producer = tube.producer("demo")
        with pytest.raises(ConfigError, match="cannot be numbered"):
            producer.number_as(0)
        with producer, pytest.raises(ClosedError, match="already"):
            producer.number_as(1)
