"""Ranges in columns from a real Broker: the messages that the reader gives, wherever a range begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pytubemq.sync
from pytubemq.client.sync.ranges import range_way
from pytubemq.errors import OffsetMovedError
from pytubemq.model.ids import Partition
from pytubemq.server.cluster import ThreadedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.client.reader.range_reads import RangeConnection

HERE = Partition(1, "demo", 0)
COUNT = 400
UNIT = 28


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedCluster]:
    with ThreadedCluster(data_dir=tmp_path_factory.mktemp("data")) as running:
        running.create_topic("demo", partitions=1)
        with pytubemq.sync.connect(running.master) as tube, tube.producer("demo") as producer:
            for start in range(0, COUNT, 40):  # half of them alone, half together
                for number in range(start, start + 5):
                    producer.send(b"%d" % number)
                producer.send_many([b"%d" % number for number in range(start + 5, start + 40)])
        yield running


@pytest.fixture
def connection(cluster: ThreadedCluster) -> Iterator[RangeConnection]:
    with pytubemq.sync.connect(cluster.master) as tube:
        made = range_way(tube, HERE).connect()
    yield made
    made.close()


def read(connection: RangeConnection, start: int, end: int, *, max_messages: int) -> list[bytes]:
    found: list[bytes] = []
    for stretch in connection.read(HERE, start, end, max_messages=max_messages, max_bytes=1 << 20):
        rows = stretch.rows
        data, at = b"".join(rows.parts), 0
        for size in rows.sizes[1:]:
            found.append(data[at : at + size])
            at += size
    return found


@pytest.mark.parametrize("max_messages", [1, 7, 1000])
@pytest.mark.parametrize(("first", "last"), [(0, COUNT), (3, 7), (4, 6), (17, 18), (39, 81), (399, 400), (5, 5)])
def test_every_cut_brings_its_messages(connection: RangeConnection, first: int, last: int, max_messages: int) -> None:
    found = read(connection, first * UNIT, last * UNIT, max_messages=max_messages)
    assert found == [b"%d" % number for number in range(first, last)]


def test_a_range_beyond_the_end_brings_what_there_is_and_then_an_error(connection: RangeConnection) -> None:
    stretches = connection.read(HERE, (COUNT - 2) * UNIT, (COUNT + 2) * UNIT, max_messages=1000, max_bytes=1 << 20)
    assert len(next(stretches).rows) == 2
    with pytest.raises(OffsetMovedError, match="ends at"):
        next(stretches)
