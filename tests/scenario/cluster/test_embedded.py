"""The embedded cluster: many Brokers, children that are killed, directories that stay or go, and the pytest fixture."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.errors import ConfigError, DirectoryLockedError, TubeError
from pytubemq.server.cluster import EmbeddedCluster, ThreadedCluster
from pytubemq.server.processes import ServerProcess
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest_plugins = ["pytubemq.testing.cluster"]

pytestmark = pytest.mark.scenario


def bodies(master: str, topic: str) -> list[bytes]:
    """All messages of a topic, sorted."""

    async def read() -> list[bytes]:
        found: list[bytes] = []
        async with pytubemq.connect(master) as tube:
            for partition in await tube.partitions(topic):
                async with tube.reader(partition, end=pytubemq.Start.LATEST) as reader:
                    found += [message.body async for batch in reader.batches() for message in batch]
        return sorted(found)

    return asyncio.run(read())


def test_the_fixture_starts_clusters_of_any_size(tube_cluster: Callable[..., ThreadedCluster]) -> None:
    cluster = tube_cluster(3)
    assert sorted(cluster.brokers) == [1, 2, 3]
    cluster.create_topic("t", partitions=2)
    with pytubemq.sync.connect(cluster.master) as tube, tube.producer("t") as producer:
        assert {partition.broker_id for partition in producer.partitions} == {1, 2, 3}
        for partition in producer.partitions:
            producer.send(str(partition).encode(), partition=partition)
    assert len(bodies(cluster.master, "t")) == 6


def test_a_killed_broker_comes_back_with_everything(tube_cluster: Callable[..., ThreadedCluster]) -> None:
    cluster = tube_cluster(broker_in_child=True)
    before = cluster.brokers
    cluster.create_topic("t", partitions=1)
    with pytubemq.sync.connect(cluster.master) as tube, tube.producer("t") as producer:
        producer.send(b"before")
        cluster.kill_broker()
        cluster.restart_broker()
        producer.send(b"after")
    assert cluster.brokers == before
    assert bodies(cluster.master, "t") == [b"after", b"before"]


def test_a_broker_in_this_process_can_be_restarted_but_not_killed(tube_cluster: Callable[..., ThreadedCluster]) -> None:
    cluster = tube_cluster()
    cluster.create_topic("t", partitions=1)
    with pytest.raises(ConfigError, match="broker_in_child"):
        cluster.kill_broker()
    with pytubemq.sync.connect(cluster.master) as tube, tube.producer("t") as producer:
        producer.send(b"before")
        cluster.restart_broker()
        producer.send(b"after")
    assert bodies(cluster.master, "t") == [b"after", b"before"]


def test_a_temporary_directory_goes_and_a_named_one_stays(tmp_path: Path) -> None:
    with ThreadedCluster() as cluster:
        temporary = cluster.data_dir
        assert (temporary / "master").is_dir()
    assert not temporary.exists()
    with ThreadedCluster(data_dir=tmp_path / "kept") as cluster:
        cluster.create_topic("t", partitions=1)
    with ThreadedCluster(data_dir=tmp_path / "kept") as cluster:
        assert bodies(cluster.master, "t") == []


def test_two_on_one_directory_are_refused(tmp_path: Path) -> None:
    with ThreadedCluster(data_dir=tmp_path), pytest.raises(DirectoryLockedError):
        ThreadedCluster(data_dir=tmp_path).start()


def test_what_is_not_running_says_so() -> None:
    cluster = ThreadedCluster()
    with pytest.raises(ConfigError, match="not running"):
        _ = cluster.master
    with pytest.raises(ConfigError, match="not running"):
        cluster.create_topic("t")
    cluster.close()


def test_a_child_that_cannot_start_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedCluster(data_dir=tmp_path / "one") as cluster:
            taken = cluster.brokers[1]
            settings = load_settings(
                None,
                environ={},
                flags={
                    "data": str(tmp_path / "two"),
                    "broker.listen": taken,
                    "broker.http_listen": "",
                    "broker.masters": [cluster.master],
                },
            )
            process = ServerProcess("broker", settings)
            with pytest.raises(TubeError) as caught:
                await process.start()
            assert taken in caught.value.message
            assert str(process.log_path) in str(caught.value.hint)
            assert not process.running

    asyncio.run(main())


def test_no_child_is_left_behind(tmp_path: Path) -> None:
    async def main() -> int:
        async with EmbeddedCluster(data_dir=tmp_path, broker_in_child=True) as cluster:
            child = cluster.child()
            assert child is not None
            os.kill(child, 0)
            return child

    child = asyncio.run(main())
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
