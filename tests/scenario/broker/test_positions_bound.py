"""What groups have confirmed is kept for good, so their number is bounded, and so is an answer that tells them all."""

from __future__ import annotations

import pytest

from pytubemq.broker import ranges
from pytubemq.errors import Code
from pytubemq.testing.disk import FaultyDisk
from tests.scenario.broker.support import connected, running

pytestmark = pytest.mark.anyio


async def test_a_new_group_beyond_the_bound_is_refused_and_those_known_go_on() -> None:
    disk = FaultyDisk()
    async with running(disk, max_positions=4) as broker, connected(broker) as peer:
        await peer.send()
        for number in range(4):
            peer.group = f"g{number}"
            assert (await peer.register()).success
        peer.group = "one-too-many"
        refused = await peer.register()
        assert refused.err_code == Code.BAD_REQUEST
        assert "group positions are full: this Broker keeps 4" in refused.err_msg
        assert "one-too-many" in refused.err_msg
        peer.group = "g2"
        assert (await peer.register()).success
        assert len((await peer.get())[1]) == 1
        assert (await peer.commit()).curr_offset == 28
        assert {group.group_name for group in (await peer.offsets(all_groups=True)).groups} == {"g0", "g1", "g2", "g3"}
    async with running(disk, max_positions=4) as broker, connected(broker) as peer:
        peer.group = "g2"
        assert (await peer.register()).curr_offset == 28
        peer.group = "one-too-many"
        assert (await peer.register()).err_code == Code.BAD_REQUEST


async def test_an_answer_with_all_positions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, connected(broker) as peer:
        for number in range(4):
            peer.group = f"g{number}"
            await peer.register()
        monkeypatch.setattr(ranges, "MAX_POSITIONS_TOLD_CHARS", 200)
        refused = await peer.offsets(all_groups=True)
        assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
        assert "name the groups or the partitions" in refused.err_msg
        assert len((await peer.offsets(group_names=("g1",))).groups) == 1
        assert len((await peer.offsets(("demo", 1), all_groups=True)).groups) == 0


async def test_a_registration_beyond_the_bound_is_refused_for_good() -> None:
    async with running() as broker, connected(broker) as peer:
        assert broker._state is not None
        broker._state.registry.max_holds = 1
        assert (await peer.register(0)).success
        refused = await peer.register(1)
        assert refused.err_code == Code.BAD_REQUEST
        assert "has 1 registrations, which is as many as it takes" in refused.err_msg
        assert (await peer.register(0)).success
