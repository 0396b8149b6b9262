"""One Spark session and one cluster for all of these tests; a topic of its own for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import pytubemq.sync
from pytubemq.server.cluster import ThreadedCluster
from tests.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

PARTITIONS = 4
SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""Of JVMs that end before their best code would pay."""
LONGEST = "test_driver.py"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The file that takes longest comes first, so that one of two processes does not wait for it at the end."""
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.fixture(scope="session", autouse=True)
def _spark_defaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every JVM of Spark that these tests start, in whatever process, compiles for a short life."""
    folder = tmp_path_factory.mktemp("spark-conf")
    (folder / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions {SHORT_LIVED}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedCluster]:
    with ThreadedCluster(data_dir=tmp_path_factory.mktemp("cluster")) as running:
        yield running


@dataclass
class Topic:
    """A topic and what was sent to it."""

    name: str
    master: str
    sent: int = 0

    def send(self, count: int) -> None:
        """`count` more messages: bodies count up from 0, types and attributes follow from the body."""
        with pytubemq.sync.connect(self.master) as tube, tube.producer(self.name) as producer:
            futures = [
                producer.submit(
                    str(n).encode(),
                    attrs={"n": str(n)},
                    msg_type="even" if n % 2 == 0 else "odd",
                    msg_time="201301011000",
                )
                for n in range(self.sent, self.sent + count)
            ]
            for future in futures:
                future.result()
        self.sent += count

    @property
    def bodies(self) -> list[str]:
        """All bodies sent so far, sorted as numbers."""
        return [str(n) for n in range(self.sent)]

    @property
    def options(self) -> dict[str, str]:
        """What every reader of the topic needs."""
        return {"master": self.master, "topic": self.name}


@pytest.fixture(scope="session")
def _names() -> Iterator[str]:
    def names() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield f"topic_{number}"

    return names()


@pytest.fixture
def new_topic(cluster: ThreadedCluster, _names: Iterator[str]) -> Callable[[], Topic]:
    def make() -> Topic:
        name = next(_names)
        cluster.create_topic(name, partitions=PARTITIONS)
        return Topic(name, cluster.master)

    return make


@pytest.fixture
def topic(new_topic: Callable[[], Topic]) -> Topic:
    return new_topic()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
