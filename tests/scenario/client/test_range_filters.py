"""A range by message type at a real Broker: from memory and from the disk, packs and single messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pytubemq.sync
from pytubemq.model.ids import Partition
from pytubemq.server.cluster import ThreadedCluster

if TYPE_CHECKING:
    from pathlib import Path

HERE = Partition(1, "demo", 0)


def bodies(master: str, kinds: list[str], end: int) -> list[int]:
    with pytubemq.sync.connect(master) as tube:
        with tube.reader(HERE, end=end, end_exists=True, filters=kinds) as reader:
            batches = list(reader.batches(max_messages=50))
        assert batches[0].start_offset == 0
        assert batches[-1].next_offset == end
        return [int(message.body) for batch in batches for message in batch]


@pytest.mark.parametrize("batching", [True, False])
def test_a_range_brings_the_types_asked_for_and_no_other(tmp_path: Path, batching: bool) -> None:
    count = 600
    with ThreadedCluster(data_dir=tmp_path) as cluster:
        cluster.create_topic("demo", partitions=1)
        with pytubemq.sync.connect(cluster.master) as tube:
            with tube.producer("demo", batching=batching) as producer:
                futures = [producer.submit(b"%d" % n, msg_type=f"t{n % 3}") for n in range(count)]
                for future in futures:
                    future.result()
            look = tube.look([HERE])[HERE]
        assert look.max_offset == 28 * count
        assert look.size_bytes is not None
        assert look.size_bytes > count * 3
        assert bodies(cluster.master, ["t1"], look.max_offset) == list(range(1, count, 3))
        assert bodies(cluster.master, ["none"], look.max_offset) == []
        assert bodies(cluster.master, ["t0", "t2"], 28 * 100) == [n for n in range(100) if n % 3 != 1]
        with pytubemq.sync.connect(cluster.master) as tube:
            assert "demo" in tube.topics()
