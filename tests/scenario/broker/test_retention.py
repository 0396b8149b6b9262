"""Old messages go while consumers read, and whose place is gone goes on at the first one that is kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import Code
from pytubemq.model.policy import RetentionPolicy
from pytubemq.model.topic import TopicConfig
from pytubemq.net.clock import SystemClock
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.scenario.broker.support import connected, item, running, service

if TYPE_CHECKING:
    from pytubemq.broker.service import BrokerService
    from pytubemq.broker.upkeep.retention import RetentionPasses
    from tests.scenario.broker.support import Peer

pytestmark = pytest.mark.anyio
SMALL = StoreSettings(reserve_bytes=0, segment_bytes=4_000)


def kept(**limits: Any) -> dict[str, Any]:
    policy = RetentionPolicy(limits.get("age_s"), limits.get("size_bytes"))
    return {
        "topics": (TopicConfig("demo", 2, retention=policy), TopicConfig("other", 1)),
        "store": SMALL,
        "retention_check_s": 3600.0,
    }


def keeper(broker: BrokerService) -> RetentionPasses:
    assert broker.retention is not None
    return broker.retention


async def fill(peer: Peer, *, rounds: int = 20, topic: str = "demo") -> None:
    """Twenty rounds of ten messages, each some 1,100 bytes in the log, put into files one after the other."""
    peer.topic, before = topic, peer.topic
    for n in range(rounds):
        await peer.send_each([item(b"%d-%d " % (n, at) + bytes(1_000)) for at in range(10)])
    peer.topic = before


async def applied(broker: BrokerService) -> None:
    assert broker._store is not None
    await asyncio.to_thread(broker._store.checkpoint)


async def test_a_partition_keeps_its_size_and_readers_go_on_at_what_is_kept() -> None:
    async with running(**kept(size_bytes=50_000)) as broker, connected(broker) as peer:
        await fill(peer)
        await fill(peer, topic="other")
        await peer.register()
        first, messages = await peer.get(max_messages=5)
        assert (first.curr_offset, len(messages)) == (0, 5)
        await applied(broker)
        await keeper(broker).one_pass()
        ends = {part.topic_name: part for part in (await peer.offsets(("demo", 0), ("other", 0))).partitions}
        assert 0 < ends["demo"].min_offset < ends["demo"].max_offset == 5_600
        assert ends["other"].min_offset == 0, "a week has not passed"
        assert keeper(broker).dropped_messages == ends["demo"].min_offset // 28
        moved, _ = await peer.read_range(0)
        assert (moved.err_code, moved.min_offset) == (Code.MOVED, ends["demo"].min_offset)
        head, messages = await peer.get(last_pack_consumed=True, max_messages=2)
        assert (head.curr_offset, messages[0].offset) == (ends["demo"].min_offset, ends["demo"].min_offset)
        assert (await peer.commit()).curr_offset == ends["demo"].min_offset + 56
        assert (await peer.send(b"next")).append_offset == 5_600


async def test_a_place_in_what_is_gone_is_lifted_in_manual_mode_too_and_after_a_restart() -> None:
    disk = FaultyDisk()
    async with running(disk, **kept(size_bytes=30_000)) as broker, connected(broker) as peer:
        await fill(peer)
        await peer.register()
        await peer.get(max_messages=5, manual_commit_offset=True)
        await applied(broker)
        await keeper(broker).one_pass()
        least = (await peer.offsets(("demo", 0))).partitions[0].min_offset
        assert least > 0
        head, messages = await peer.get(max_messages=1, manual_commit_offset=True)
        assert (head.curr_offset, messages[0].offset) == (least, least)
    async with running(disk, **kept(size_bytes=30_000)) as broker, connected(broker) as peer:
        assert (await peer.offsets(("demo", 0))).partitions[0].min_offset == least, "it is not back"
        await peer.register()
        assert (await peer.get(max_messages=1))[0].curr_offset == least


class Ahead(SystemClock):
    """A wall clock that can be set forward, with or without the time that passes."""

    def __init__(self) -> None:
        self.jumped_s = self.passed_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.passed_s

    def wall_ms(self) -> int:
        return super().wall_ms() + int((self.jumped_s + self.passed_s) * 1000)


async def test_age_counts_and_a_clock_that_jumps_deletes_nothing() -> None:
    clock = Ahead()
    plain = service(**kept(age_s=3_600.0))
    broker = type(plain)(plain.settings, clock=clock, disk=plain._disk)
    await broker.start()
    try:
        async with connected(broker) as peer:
            await fill(peer, rounds=3)
            await applied(broker)
            clock.jumped_s = 10 * 365 * 86_400.0
            await keeper(broker).one_pass()
            assert (keeper(broker).passes, keeper(broker).skipped) == (0, 1)
            assert any("jumped" in problem for problem in broker.health()["problems"])
            assert (await peer.offsets(("demo", 0))).partitions[0].min_offset == 0
            clock.jumped_s = 0.0
            await keeper(broker).one_pass()
            clock.passed_s = 1_800.0
            await keeper(broker).one_pass()
            assert (await peer.offsets(("demo", 0))).partitions[0].min_offset == 0, "half an hour of one"
            clock.passed_s = 7_200.0
            await keeper(broker).one_pass()
        async with connected(broker) as peer:
            part = (await peer.offsets(("demo", 0))).partitions[0]
            assert (part.min_offset, part.max_offset) == (840, 840)
            assert (await peer.send(b"new")).append_offset == 840
            assert broker.health()["status"] == "ok"
    finally:
        await broker.close()


def near(broker: BrokerService) -> dict[tuple[str, ...], float]:
    return dict(broker.facts().near_losses())


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.getMessage() for record in caplog.records if "retention remove" in record.getMessage()]
    caplog.clear()
    return texts


async def test_groups_that_are_about_to_lose_messages_are_named_with_the_time_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Ahead()
    plain = service(**kept(age_s=36_000.0))
    broker = type(plain)(plain.settings, clock=clock, disk=plain._disk)
    await broker.start()
    try:
        async with connected(broker) as peer:
            await fill(peer, rounds=3)
            await applied(broker)
            await peer.register()
            await peer.get(max_messages=5)
            confirmed = (await peer.commit()).curr_offset
            assert confirmed
            await keeper(broker).one_pass()
            assert (near(broker), said(caplog)) == ({}, []), "ten hours are left"

            clock.passed_s = 27_000.0
            await keeper(broker).one_pass()
            assert near(broker) == {}, "two and a half hours are left: more than a fifth of what is kept"
            clock.passed_s = 33_000.0
            await peer.register()
            await keeper(broker).one_pass()
            ((name, left_s),) = near(broker).items()
            assert name == (peer.group, "demo")
            assert 2_900 < left_s <= 3_000
            (line,) = said(caplog)
            left = 30 - confirmed // 28
            assert line.startswith(f"group {peer.group}: retention removes {left} unconfirmed messages of topic demo,")
            assert "the first in 50 min; raise the topic's retention" in line

            await keeper(broker).one_pass()
            assert said(caplog) == [], "once is enough for a while"
            clock.passed_s = 33_700.0
            await peer.register()
            await keeper(broker).one_pass()
            assert len(said(caplog)) == 1, "its consumer is still too slow"
            while (await peer.get())[0].err_code == Code.SUCCESS:
                await peer.commit()
            await keeper(broker).one_pass()
            assert (near(broker), said(caplog)) == ({}, [])
    finally:
        await broker.close()


async def test_a_group_that_is_gone_is_named_once_and_then_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    clock = Ahead()
    plain = service(**kept(age_s=36_000.0))
    broker = type(plain)(plain.settings, clock=clock, disk=plain._disk)
    await broker.start()
    try:
        async with connected(broker) as peer:
            await peer.register()
            await peer.register(op_type=32)
            lines = []
            for hours in range(0, 60, 5):
                await fill(peer, rounds=1)
                await applied(broker)
                clock.passed_s = hours * 3_600.0
                await keeper(broker).one_pass()
                clock.passed_s += 3_600.0 * 4.5
                await keeper(broker).one_pass()
                lines += said(caplog)
        assert len(lines) == 1, lines
        assert "no consumer reads them" in lines[0]
        assert near(broker) == {}
    finally:
        await broker.close()


async def test_a_disk_that_does_not_let_files_go_is_shown_and_tried_again() -> None:
    disk = FaultyDisk()
    async with running(disk, **kept(size_bytes=30_000)) as broker, connected(broker) as peer:
        await fill(peer)
        await applied(broker)
        disk.fail(Operation.UNLINK, path_contains="logs")
        await keeper(broker).one_pass()
        assert (await peer.send(b"still taken")).success
        assert len((await peer.read_range(5_600))[1]) == 1
        disk.heal()
        await keeper(broker).one_pass()
        assert broker.health()["status"] == "ok"
        assert (await peer.offsets(("demo", 0))).partitions[0].min_offset > 0
