"""Several reads and one confirm for all of them, with a hold that is lost in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.broker.service import BrokerService, BrokerSettings
from pytubemq.errors import Code
from pytubemq.net.clock import SystemClock
from tests.scenario.broker.support import Peer, connected, item, service
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytubemq.wire.batch.stored import StoredMessage

pytestmark = pytest.mark.anyio
LEASE_S = 30.0


class SteeredClock(SystemClock):
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.ahead_s


class Scene:
    """A Broker with ten messages, two peers that want the same partition, and a clock to let holds run out."""

    def __init__(self, broker: BrokerService, clock: SteeredClock, peer: Peer, other: Peer) -> None:
        self.broker, self.clock, self.peer, self.other = broker, clock, peer, other
        other.client_id = "g_127.0.0.1-2-2-2-Pull-1.0"

    async def read(self, peer: Peer, count: int) -> list[bytes]:
        return payloads((await peer.get(max_messages=count, manual_commit_offset=True))[1])

    async def lose_the_hold(self) -> None:
        self.clock.ahead_s += LEASE_S + 1
        await until(lambda: self.broker.health()["consumers"] == 0)

    async def durable(self) -> int:
        return (await self.peer.offsets(all_groups=True)).groups[0].confirmed_offset


def payloads(messages: Sequence[StoredMessage]) -> list[bytes]:
    return [message.payload for message in messages]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    clock = SteeredClock()
    plain = service(lease_timeout_s=LEASE_S)
    settings: BrokerSettings = plain.settings
    broker = BrokerService(settings, clock=clock, disk=plain._disk)
    await broker.start()
    try:
        async with connected(broker) as peer, connected(broker) as other:
            await peer.send_each([item(b"%d" % n) for n in range(10)])
            await peer.register()
            yield Scene(broker, clock, peer, other)
    finally:
        await broker.close()


async def test_one_confirm_stands_for_all_reads_before_it(scene: Scene) -> None:
    assert await scene.read(scene.peer, 3) == [b"0", b"1", b"2"]
    assert await scene.read(scene.peer, 2) == [b"3", b"4"]
    assert await scene.durable() == 0
    assert (await scene.peer.commit()).curr_offset == 140
    assert await scene.durable() == 140


async def test_a_confirm_after_the_hold_was_lost_is_refused_and_everything_comes_again(scene: Scene) -> None:
    await scene.read(scene.peer, 3)
    await scene.read(scene.peer, 2)
    await scene.lose_the_hold()
    refused = await scene.peer.commit()
    assert (refused.err_code, refused.curr_offset) == (Code.UNAUTHORIZED, -1)
    assert (await scene.peer.commit(up_to=84)).err_code == Code.UNAUTHORIZED
    assert await scene.durable() == 0
    assert (await scene.peer.get(manual_commit_offset=True))[0].err_code == Code.HB_NO_NODE
    assert (await scene.peer.register()).curr_offset == 0
    assert await scene.read(scene.peer, 10) == [b"%d" % n for n in range(10)]


async def test_what_was_confirmed_up_to_before_the_hold_was_lost_stands(scene: Scene) -> None:
    await scene.read(scene.peer, 3)
    await scene.read(scene.peer, 4)
    assert (await scene.peer.commit(up_to=112)).curr_offset == 112
    await scene.lose_the_hold()
    assert (await scene.peer.register()).curr_offset == 112
    assert await scene.read(scene.peer, 2) == [b"4", b"5"]


async def test_a_late_confirm_of_the_previous_holder_does_not_touch_the_new_one(scene: Scene) -> None:
    await scene.read(scene.peer, 5)
    await scene.lose_the_hold()
    assert (await scene.other.register()).curr_offset == 0
    assert await scene.read(scene.other, 2) == [b"0", b"1"]
    assert (await scene.peer.commit()).err_code == Code.UNAUTHORIZED
    assert (await scene.peer.commit(up_to=140)).err_code == Code.UNAUTHORIZED
    assert (await scene.peer.get(manual_commit_offset=True))[0].err_code == Code.DUPLICATE_PARTITION
    assert (await scene.other.commit()).curr_offset == 56
    assert await scene.read(scene.other, 1) == [b"2"]


async def test_a_registration_anew_within_the_hold_rolls_back_what_was_not_confirmed(scene: Scene) -> None:
    await scene.read(scene.peer, 5)
    assert (await scene.peer.register()).curr_offset == 0
    assert (await scene.peer.commit()).curr_offset == 0, "nothing was handed out to this registration"
    assert await scene.read(scene.peer, 2) == [b"0", b"1"]


async def test_a_farewell_without_confirm_rolls_back_and_one_with_it_confirms(scene: Scene) -> None:
    await scene.read(scene.peer, 3)
    assert (await scene.peer.register(op_type=32, read_status=1)).success
    assert await scene.durable() == 0
    await scene.peer.register()
    await scene.read(scene.peer, 3)
    assert (await scene.peer.register(op_type=32, read_status=0)).success
    assert await scene.durable() == 84


async def test_a_heartbeat_keeps_the_hold_and_what_was_handed_out(scene: Scene) -> None:
    await scene.read(scene.peer, 3)
    for _ in range(3):
        scene.clock.ahead_s += LEASE_S / 2
        assert not (await scene.peer.heartbeat("1:127.0.0.1:8123#demo:0")).has_part_failure
    assert (await scene.peer.commit()).curr_offset == 84
