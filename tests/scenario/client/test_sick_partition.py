"""A partition that its Broker cannot serve, and messages that may go to any."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.model.ids import Partition
from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

SICK = Partition(1, "orders", 0)


def lose(data_dir: Path) -> None:
    """Take the partition's files away."""
    shutil.rmtree(next(data_dir.glob("**/logs/orders/0")))


async def test_messages_without_a_key_go_round_a_partition_that_cannot_be_served(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        await cluster.create_topic("orders", partitions=3)
        async with pytubemq.connect(cluster.master) as tube, tube.producer("orders") as producer:
            for number in range(3):
                await producer.send(b"before", partition=number)
        await cluster.stop_broker()
        lose(tmp_path)
        await cluster.restart_broker()
        async with pytubemq.connect(cluster.master) as tube, tube.producer("orders") as producer:
            receipts = await asyncio.gather(*[producer.send(b"%d" % n) for n in range(50)])
            more = [await producer.send(b"later") for _ in range(10)]
            many = await producer.send_many([b"together"] * 20)
        assert SICK not in {receipt.partition for receipt in [*receipts, *more, *many]}
        assert not any(receipt.repeated for receipt in [*receipts, *more])
