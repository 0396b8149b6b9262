"""What consumers get at a real Broker under the cluster's flow-control rules."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq.core.flow import NO_FLOW_RULES, DataLimit, FlowRules
from pytubemq.errors import Code
from tests.scenario.broker.support import connected, item, running
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
SLOW = FlowRules((DataLimit(0, 2459, 0, 1, 250),))
"""1 MiB a minute for whoever is behind at all."""


async def test_a_reader_that_is_behind_is_slowed_down_and_one_that_escapes_is_not() -> None:
    async with running() as broker, connected(broker) as peer:
        assert broker._state is not None
        for _ in range(4):
            await peer.send_each([item(bytes(1000))] * 300)
        await peer.register()
        broker._state.flow.rules = SLOW
        first, messages = await peer.get(max_messages=1)
        assert (first.err_code, len(messages)) == (Code.SUCCESS, 1), "before anything is known of it, it reads"
        second, messages = await peer.get(last_pack_consumed=True)
        assert (second.err_code, 0 < len(messages) < 100) == (Code.SUCCESS, True), "a window's share"
        refused, messages = await peer.get(last_pack_consumed=True)
        assert (refused.err_code, refused.min_limit_time, messages) == (Code.SERVER_CONSUME_SPEED_LIMIT, 250, [])
        assert "250 ms" in (refused.err_msg or "")
        escaping, messages = await peer.get(last_pack_consumed=True, esc_flow_ctrl=True)
        assert (escaping.err_code, escaping.curr_offset) == (Code.SUCCESS, second.next_offset), (
            "the batch before was confirmed, though the answer was a refusal"
        )
        assert len(messages) > 100
        broker._state.flow.rules = NO_FLOW_RULES
        assert (await peer.get())[0].err_code == Code.SUCCESS, "cleared rules end at once"


async def test_a_fetch_that_is_held_is_told_to_wait_as_well() -> None:
    async with running() as broker, connected(broker) as peer, connected(broker) as producer:
        assert broker._state is not None
        broker._state.flow.rules = FlowRules((DataLimit(0, 2459, 0, 0, 900),))
        await producer.send_each([item()] * 3)
        await peer.register()
        await peer.get(max_messages=1)
        assert (await peer.get(last_pack_consumed=True, max_wait_ms=20_000))[0].err_code == 452, "at once, not held"
        broker._state.flow.rules = NO_FLOW_RULES
        await peer.get(last_pack_consumed=True)
        waiting = asyncio.create_task(peer.get(last_pack_consumed=True, max_wait_ms=20_000))
        await until(lambda: broker.health()["held_fetches"] == 1)
        broker._state.flow.rules = FlowRules((DataLimit(0, 2459, 0, 0, 700),))
        await producer.send()
        assert (await waiting)[0].min_limit_time == 700


async def test_a_filtered_reader_is_told_when_little_is_left() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(msg_type="abc")] * 3)
        await peer.register(filter_cond_str=("abc",))
        assert (await peer.get())[0].require_slow is True
        await peer.register()
        assert (await peer.get())[0].require_slow is False


async def test_a_priority_is_kept_and_a_heartbeat_replaces_it() -> None:
    async with running() as broker, connected(broker) as peer:
        assert broker._state is not None
        await peer.register(qry_priority_id=203)
        (hold,) = broker._state.registry.registrations()
        assert (hold.priority_id, broker._state.flow.priority(hold.priority_id)) == (203, 203)
        await peer.heartbeat("1:127.0.0.1:8123#demo:0")
        assert (hold.priority_id, broker._state.flow.priority(hold.priority_id)) == (-2, 300)
