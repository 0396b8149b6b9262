"""The stories of a message, a partition and a group, as a whole cluster tells them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pytubemq import Start, connect
from pytubemq.observe.trace_events import ROOT, configure_tracing
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]


@pytest.fixture(autouse=True)
def _quiet_again() -> Any:
    yield
    configure_tracing("")


def steps(caplog: pytest.LogCaptureFixture, noun: str) -> list[dict[str, Any]]:
    """What was told of one kind of thing."""
    return [story for record in caplog.records if (story := getattr(record, "story", {"noun": ""}))["noun"] == noun]


def events(caplog: pytest.LogCaptureFixture, noun: str) -> list[str]:
    found: list[str] = []
    for story in steps(caplog, noun):
        if story["event"] not in found:
            found.append(story["event"])
    return found


async def work(cluster: EmbeddedCluster) -> None:
    """A message is sent and confirmed in two topics, each by its own group."""
    async with connect(cluster.master) as tube:
        for topic, group in (("orders", "g1"), ("others", "g2")):
            await cluster.create_topic(topic, partitions=1)
            async with (
                tube.producer(topic) as producer,
                tube.consumer(group, topic, start=Start.EARLIEST) as consumer,
            ):
                await producer.send(b"secret")
                batch = await consumer.next_batch(timeout_s=30)
                assert batch is not None
                await batch.confirm()


async def test_each_step_is_told_in_its_order(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, ROOT)
    configure_tracing("topic:orders,group:g1")
    async with EmbeddedCluster() as cluster:
        await work(cluster)
        await until(lambda: "applied" in events(caplog, "partition"))
    message = events(caplog, "message")
    # what goes over a socket and back may be logged by either side first
    assert set(message) == {"sent", "received", "written", "published", "fetched", "confirmed"}
    told = [event for event in message if event != "sent"]
    assert told == ["received", "written", "published", "fetched", "confirmed"]
    (written,) = [step for step in steps(caplog, "message") if step["event"] == "written"]
    assert (written["topic"], written["partition"], written["offset"], written["to"]) == ("orders", 0, 0, 28)
    assert (written["messages"], written["flushed"]) == (1, True)
    group = events(caplog, "group")
    assert group.index("joined") < group.index("assigned") < group.index("taken") < group.index("confirmed")
    assert "left" in group
    partition = events(caplog, "partition")
    assert partition.index("served") < partition.index("created") < partition.index("applied")
    assert "owner" in partition
    # nobody asked for the others, and nobody is ever told what a message says
    assert "others" not in {step.get("topic") for noun in ("message", "partition") for step in steps(caplog, noun)}
    assert "secret" not in caplog.text


async def test_nothing_is_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with EmbeddedCluster() as cluster:
        await work(cluster)
    assert not [record for record in caplog.records if record.name.startswith(ROOT)]
