"""What groups have confirmed is kept, so its amount is bounded, and so is an answer that tells it all."""

from __future__ import annotations

import pytest

from pytubemq.broker.consume import range_reads
from pytubemq.errors import Code
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.protocol.messages.extension import OffsetReset, ResetOffsetsRequest, ResetOffsetsResponse
from pytubemq.wire.rpc.methods import Method
from tests.scenario.broker.support import TIMEOUT_S, Peer, connected, running

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
        monkeypatch.setattr(range_reads, "MAX_POSITIONS_CHARS", 200)
        refused = await peer.offsets(all_groups=True)
        assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
        assert "name the groups or the partitions" in refused.err_msg
        assert len((await peer.offsets(group_names=("g1",))).groups) == 1
        assert len((await peer.offsets(("demo", 1), all_groups=True)).groups) == 0


async def test_a_registration_beyond_the_bound_is_refused_so_that_clients_try_again() -> None:
    async with running() as broker, connected(broker) as peer:
        state = broker._running_state()
        state.registry.max_registrations = 1
        assert (await peer.register(0)).success
        refused = await peer.register(1)
        assert refused.err_code == Code.SERVICE_UNAVAILABLE
        assert "registrations are full: this Broker has 1" in refused.err_msg
        assert "registrations are full" in str(broker._problems(state))
        assert (await peer.register(0)).success


async def test_a_connection_with_all_registrations_makes_room_for_others() -> None:
    async with running() as broker, connected(broker) as crowd, connected(broker) as peer:
        await peer.send()
        broker._running_state().registry.max_registrations = 3
        crowd.group = "crowd"
        for partition_id in range(3):
            assert (await crowd.register(partition_id)).success
        assert (await peer.register(0)).success
        assert len((await peer.get())[1]) == 1
        assert (await crowd.get(2))[0].err_code == Code.HB_NO_NODE
        assert (await peer.register(1)).err_code == Code.SERVICE_UNAVAILABLE, "two and one are a fair share"


def resets(group: str, partitions: int = 3) -> ResetOffsetsRequest:
    return ResetOffsetsRequest(
        client_id="c", group_name=group, user="ann",
        resets=tuple(OffsetReset(topic_name="demo", partition_id=at, to="latest") for at in range(partitions)),
    )  # fmt: skip


async def reset(peer: Peer, group: str, partitions: int = 3) -> ResetOffsetsResponse:
    return await peer.connection.request(
        resets(group, partitions), ResetOffsetsResponse, Method.RESET_OFFSETS, 2, timeout_s=TIMEOUT_S
    )


async def groups(peer: Peer) -> set[str]:
    return {group.group_name for group in (await peer.offsets(all_groups=True)).groups}


async def test_positions_of_groups_that_were_only_reset_make_room_the_oldest_first() -> None:
    async with running(max_positions=9) as broker, connected(broker) as crowd, connected(broker) as peer:
        for number in range(3):
            assert (await reset(crowd, f"made-up-{number}")).success
        peer.group = "honest"
        assert (await peer.register(0)).success
        assert await groups(peer) == {"made-up-0", "made-up-1", "made-up-2", "honest"}
        assert (await peer.register(1)).success
        assert (await peer.register(2)).success
        assert await groups(peer) == {"made-up-1", "made-up-2", "honest"}
        assert (await reset(crowd, "made-up-3")).success
        assert await groups(peer) == {"made-up-2", "made-up-3", "honest"}


async def test_resets_of_peers_have_a_share_of_the_positions_and_take_none_of_readers() -> None:
    async with running() as broker, connected(broker) as crowd, connected(broker) as peer:
        state = broker._running_state()
        state.positions.spare.most_by_reset = 6
        assert (await reset(peer, "mine", 1)).success
        for number in range(4):
            assert (await reset(crowd, f"made-up-{number}")).success
        assert await groups(peer) == {"mine", "made-up-3", "made-up-2"}, "of the connection with most of them"
        assert state.positions.count == 6
        assert "that no consumer has used, 6 of them from 127.0.0.1" in str(broker._problems(state))
        for group in ("mine", "made-up-2", "made-up-3"):  # a group that reads loses none
            peer.group = group
            for partition_id in range(3):
                await peer.register(partition_id)
        refused = await reset(crowd, "made-up-4")
        assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
        assert "for groups that were reset and have not been read" in refused.err_msg
        for partition_id in range(3):
            await peer.get(partition_id)
        assert (await reset(crowd, "made-up-4")).success, "a position that is read is no part of the share"
        assert await groups(peer) == {"mine", "made-up-2", "made-up-3", "made-up-4"}


async def test_groups_that_registered_and_never_read_make_room_once_they_have_left() -> None:
    async with running(max_positions=2) as broker, connected(broker) as peer:
        peer.group = "a"
        await peer.register()
        peer.group = "b"
        await peer.register()
        peer.group = "c"
        assert (await peer.register()).err_code == Code.BAD_REQUEST
        peer.group = "a"
        await peer.get()
        await peer.register(op_type=32)
        peer.group = "b"
        await peer.register(op_type=32)
        peer.group = "c"
        assert (await peer.register()).success
        assert await groups(peer) == {"a", "c"}
