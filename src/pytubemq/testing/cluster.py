"""A real cluster for tests: pytest fixtures over `EmbeddedCluster`.

Name this module in a test suite's `conftest.py` to have them: `pytest_plugins = ["pytubemq.testing.cluster"]`.
The invariant: each test has a cluster of its own, on free ports and in a directory of its own, gone when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import pytest

from pytubemq.server.cluster import ThreadedCluster

if TYPE_CHECKING:
    from pathlib import Path

ClusterFactory: TypeAlias = Callable[..., ThreadedCluster]


@pytest.fixture
def tube_cluster(tmp_path: Path) -> Iterator[ClusterFactory]:
    """Start clusters: `tube_cluster()`, `tube_cluster(3)` for three Brokers, `tube_cluster(broker_in_child=True)`.

    The result has `master` and `http` addresses, `create_topic`, `kill_broker` and `restart_broker`.
    """
    started: list[ThreadedCluster] = []

    def start(
        brokers: int = 1, *, broker_in_child: bool = False, settings: Mapping[str, object] | None = None
    ) -> ThreadedCluster:
        cluster = ThreadedCluster(
            data_dir=tmp_path / f"cluster-{len(started)}",
            brokers=brokers,
            broker_in_child=broker_in_child,
            settings=settings,
        )
        started.append(cluster.start())
        return cluster

    yield start
    for cluster in reversed(started):
        cluster.close()
