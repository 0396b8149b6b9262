"""Why a group gets nothing of a topic, as the Master tells it."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq.master.registry.audit import Audit
from pytubemq.master.registry.consumes import ConsumeChange
from pytubemq.master.registry.topics import DeploySpec, TopicSpec
from pytubemq.model.records import TopicProps
from tests.scenario.master.town import FakeConsumer, Town, town

pytestmark = pytest.mark.anyio

BY = Audit("ann", 1000)


async def closed(t: Town) -> list[tuple[str, str]]:
    return [(one.topic, one.why) for one in (await t.master.group("g")).closed]


async def test_a_group_is_told_which_of_its_topics_are_closed_and_why() -> None:
    async with town() as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        for topic in ("demo", "other"):
            await t.master.create_topic(topic, 1)
        consumer = await t.peer(FakeConsumer)
        assert (await consumer.register("demo", "other")).success
        assert await closed(t) == []

        registry = t.master.registry
        denied = ConsumeChange(group="g", topic="demo", by=BY, consume_enable=False, reason="too slow")
        await registry.consumes.add([denied])
        ((topic, why),) = await closed(t)
        assert (topic, why.endswith("for this group: too slow")) == ("demo", True)

        await registry.topics.update([(TopicSpec("other", enable_auth_control=True), BY)])
        assert [topic for topic, _ in await closed(t)] == ["demo", "other"]
        assert "only permitted groups" in (await closed(t))[1][1]
        await registry.consumes.add([ConsumeChange(group="g", topic="other", by=BY)])
        assert [topic for topic, _ in await closed(t)] == ["demo"]

        await registry.topics.update_deploy([(DeploySpec("other", 1, TopicProps(accept_subscribe=False)), BY)])
        assert (await closed(t))[1] == ("other", "no Broker that has it lets consumers read now")
        serving.cancel()
