"""Progress as a group's position, at a real cluster."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import pytubemq.sync
from pytubemq.errors import ConfigError, UnavailableError
from pytubemq.model.ids import Partition
from pytubemq.server.cluster import ThreadedCluster
from pytubemq.spark.source import progress as progress_module
from pytubemq.spark.source.progress import GroupProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.sync import Tube

KEYS = ("1:demo:0", "1:demo:1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadedCluster]:
    with ThreadedCluster() as running:
        for topic in ("demo", "more"):
            running.create_topic(topic, partitions=2)
        with pytubemq.sync.connect(running.master) as tube, tube.producer("demo") as producer:
            for n in range(20):
                producer.send(b"%d" % n, partition=n % 2)
        yield running


@pytest.fixture
def tube(cluster: ThreadedCluster) -> Iterator[Tube]:
    with pytubemq.sync.connect(cluster.master, client_name="spark") as made:
        yield made


def positions(tube: Tube, group: str) -> dict[str, int | None]:
    looks = tube.look([Partition.parse(key) for key in KEYS], group=group)
    return {str(partition): look.position for partition, look in looks.items()}


def test_what_is_published_is_the_groups_position_also_backwards_and_stays(tube: Tube) -> None:
    progress = GroupProgress("published", lambda: tube)
    progress.open(dict.fromkeys(KEYS, 0))
    assert positions(tube, "published") == dict.fromkeys(KEYS, 0)
    progress.publish({KEYS[0]: 56, KEYS[1]: 280}, at_once=True)
    assert positions(tube, "published") == {KEYS[0]: 56, KEYS[1]: 280}
    held = {look.held_by for look in tube.look([Partition.parse(KEYS[0])], group="published").values()}
    assert len(held) == 1
    assert "spark" in str(held.pop())
    progress.close()
    assert positions(tube, "published") == {KEYS[0]: 56, KEYS[1]: 280}
    again = GroupProgress("published", lambda: tube)
    again.open(dict.fromkeys(KEYS, 28))
    assert positions(tube, "published") == dict.fromkeys(KEYS, 28)
    again.close()


def test_progress_is_told_now_and_then_unless_at_once(tube: Tube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "EVERY_S", 3600.0)
    progress = GroupProgress("paced", lambda: tube)
    progress.open(dict.fromkeys(KEYS, 0))
    progress.publish(dict.fromkeys(KEYS, 28), at_once=False)
    progress.publish(dict.fromkeys(KEYS, 56), at_once=False)
    assert positions(tube, "paced") == dict.fromkeys(KEYS, 28)
    progress.publish(dict.fromkeys(KEYS, 84), at_once=True)
    assert positions(tube, "paced") == dict.fromkeys(KEYS, 84)
    progress.close()


def test_a_topic_found_later_is_published_too(tube: Tube) -> None:
    progress = GroupProgress("growing", lambda: tube)
    progress.open(dict.fromkeys(KEYS, 28))
    progress.publish({**dict.fromkeys(KEYS, 56), "1:more:0": 0}, at_once=True)
    assert positions(tube, "growing") == dict.fromkeys(KEYS, 56)
    more = Partition(1, "more", 0)
    assert tube.look([more], group="growing")[more].position == 0
    progress.close()


def test_a_second_query_with_the_same_group_is_refused(tube: Tube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "PREDECESSOR_S", 0.5)
    progress = GroupProgress("twice", lambda: tube)
    progress.open(dict.fromkeys(KEYS, 0))
    with pytest.raises(ConfigError, match=r"(?s)commitGroup twice is in use.*a commitGroup of its own"):
        GroupProgress("twice", lambda: tube).open(dict.fromkeys(KEYS, 0))
    progress.publish(dict.fromkeys(KEYS, 28), at_once=True)
    assert positions(tube, "twice") == dict.fromkeys(KEYS, 28)
    progress.close()


def test_a_group_that_consumers_read_with_is_refused(tube: Tube) -> None:
    with tube.consumer("readers", "demo") as consumer:
        next(consumer.batches(idle_timeout_s=0.1), None)
        with pytest.raises(ConfigError, match="commitGroup readers is in use"):
            GroupProgress("readers", lambda: tube).open(dict.fromkeys(KEYS, 0))


def test_a_query_that_was_killed_leaves_the_group_to_its_successor(cluster: ThreadedCluster, tube: Tube) -> None:
    killed = pytubemq.sync.connect(cluster.master)
    killed.__enter__()
    GroupProgress("orphan", lambda: killed).open(dict.fromkeys(KEYS, 0))
    tube_of = killed._tube._cluster
    assert tube_of is not None
    assert killed._io is not None
    killed._io.run(tube_of.pool.close())  # its connections break, and it says no more
    killed._io.close()
    progress = GroupProgress("orphan", lambda: tube)
    progress.open(dict.fromkeys(KEYS, 56))
    assert positions(tube, "orphan") == dict.fromkeys(KEYS, 56)
    progress.close()


def test_a_failure_to_publish_is_told_once_and_made_up_for(
    tube: Tube, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    progress = GroupProgress("away", lambda: tube)
    progress.open(dict.fromkeys(KEYS, 0))
    move = progress._move

    def fail(*_: object) -> None:
        raise UnavailableError("the Broker is away", code=503)

    monkeypatch.setattr(progress, "_move", fail)
    with caplog.at_level(logging.WARNING):
        progress.publish(dict.fromkeys(KEYS, 28), at_once=True)
        progress.publish(dict.fromkeys(KEYS, 56), at_once=True)
    assert caplog.text.count("cannot be published for now") == 1
    monkeypatch.setattr(progress, "_move", move)
    progress.publish(dict.fromkeys(KEYS, 56), at_once=True)
    assert positions(tube, "away") == dict.fromkeys(KEYS, 56)
    progress.close()
