"""What a Broker does at its Master's word beside serving topics: flow control, removals, tokens, stops."""

from __future__ import annotations

import asyncio
import errno
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.broker.members.visit_tokens import NEW_TOKENS_S
from pytubemq.core.flow import parse_rules
from pytubemq.errors import Code
from pytubemq.net.clock import SystemClock
from pytubemq.testing.disk import FaultyDisk, Operation
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.protocol.messages.extension import (
    ResetHistoryRequest,
    ResetHistoryResponse,
    ResetOffsetsRequest,
    ResetOffsetsResponse,
)
from pytubemq.wire.protocol.messages.master import EnableBrokerFunInfo, MasterBrokerAuthorizedInfo
from pytubemq.wire.rpc.methods import Method
from tests.scenario.broker.scripted_master import DEFAULT, ScriptedMaster, master, topic
from tests.scenario.broker.support import TIMEOUT_S, connected, item, running, service
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq.broker.service import BrokerService
    from pytubemq.broker.state import BrokerState
    from tests.scenario.broker.support import Peer

pytestmark = pytest.mark.anyio
OLD = Capability(0)
RULES = '[{"type":0,"rule":[{"start":"00:00","end":"24:00","dltInM":21,"limitInM":1,"freqInMs":1000}]}]'


def state(broker: BrokerService) -> BrokerState:
    assert broker._state is not None
    return broker._state


async def test_rules_come_with_an_answer_and_go_with_blank_text() -> None:
    async with (
        master(topic("demo"), capabilities=OLD) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
    ):
        assert (scripted.heartbeats[0].flow_check_id, scripted.heartbeats[0].qry_priority_id) == (-2, -2)
        scripted.says = {"flow_check_id": 7, "flow_control_info": RULES, "qry_priority_id": 302}
        await until(lambda: state(broker).flow.rules == parse_rules(RULES))
        assert state(broker).flow.priority_id == 302
        scripted.says = {"flow_check_id": 7, "qry_priority_id": 302}
        await until(lambda: scripted.heartbeats[-1].flow_check_id == 7)
        assert state(broker).flow.limits, "the same id without text: they stay"
        scripted.says = {"flow_check_id": 8, "flow_control_info": " ", "qry_priority_id": 302}
        await until(lambda: not state(broker).flow.limits)


async def test_rules_that_make_no_sense_leave_those_in_force_and_show() -> None:
    async with (
        master(topic("demo"), capabilities=OLD) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
    ):
        scripted.says = {"flow_check_id": 7, "flow_control_info": RULES}
        await until(lambda: state(broker).flow.limits)
        scripted.says = {"flow_check_id": 8, "flow_control_info": RULES.replace("21", "20")}
        await until(lambda: any("dltInM is 20" in problem for problem in broker.health()["problems"]))
        assert state(broker).flow.rules == parse_rules(RULES)
        scripted.says = {"flow_check_id": -2}
        await until(lambda: broker.health()["status"] == "ok" and not state(broker).flow.limits)


async def test_rules_hold_after_a_restart_without_the_master_and_are_asked_for_anew() -> None:
    disk = FaultyDisk()
    async with master(topic("demo"), capabilities=OLD) as scripted:
        scripted.says_first = {"flow_check_id": 7, "flow_control_info": RULES, "qry_priority_id": 302}
        scripted.says = {"flow_check_id": 7}
        async with running(disk, masters=(scripted.address,)) as broker:
            assert state(broker).flow.limits
        await scripted.stop()
        async with running(disk, masters=(scripted.address,)) as broker:
            assert (state(broker).flow.limits, state(broker).flow.priority_id) == (True, 302)
            scripted.says_first = scripted.says = {}
            await scripted.start()
            await until(lambda: len(scripted.registrations) == 2)
            assert scripted.registrations[-1].flow_check_id == -2


async def test_a_broker_that_comes_back_with_its_topics_says_that_it_is_on_line() -> None:
    disk = FaultyDisk()
    async with master(topic("demo"), capabilities=OLD) as scripted:
        for _ in range(2):
            async with running(disk, masters=(scripted.address,), tls_port=8130):
                pass
        first, second = scripted.registrations
        assert (first.broker_online, first.tls_port, first.broker_topic_set_conf_info) == (False, 8130, ())
        assert (second.broker_online, second.broker_topic_set_conf_info) == (True, (topic("demo"),))
        assert second.broker_default_conf_info == DEFAULT


async def test_stops_are_reported_back_as_the_masters() -> None:
    async with (
        master(topic("demo"), capabilities=OLD) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01),
    ):
        scripted.stop_read = True
        await until(lambda: scripted.heartbeats[-1].read_status_rpt == 1)
        assert scripted.heartbeats[-1].write_status_rpt == 0
        scripted.stop_read, scripted.stop_write = False, True
        await until(
            lambda: (scripted.heartbeats[-1].read_status_rpt, scripted.heartbeats[-1].write_status_rpt) == (0, 1)
        )
        scripted.stop_write = False
        await until(lambda: scripted.heartbeats[-1].write_status_rpt == 0)


def listed(*names: str, status: int = 2) -> dict[str, object]:
    return {
        "take_remove_topic_info": True,
        "remove_topic_conf_info": tuple(topic(name, 3, status) for name in names),
    }


async def test_a_topic_that_is_removed_is_gone_from_the_disk_reported_and_fresh_when_it_comes_back() -> None:
    disk = FaultyDisk()
    async with master(topic("demo", 3), topic("other"), capabilities=OLD) as scripted:
        async with (
            running(disk, masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
            connected(broker) as peer,
        ):
            for partition_id in range(3):
                await peer.send_each([item(b"old", partition_id)] * 5)
            await peer.send(topic="other")
            await peer.register()
            await peer.get()
            await peer.commit()
            scripted.says = listed("other", status=1)  # a soft delete is not a removal
            scripted.push(topic("other"))
            scripted.says = listed("demo")
            await until(lambda: scripted.heartbeats[-1].removed_topics_info == ("demo",))
            assert scripted.heartbeats[-1].take_removed_topic_info is True
            assert (await peer.send()).err_code == Code.FORBIDDEN
            assert (await peer.get())[0].err_code == Code.FORBIDDEN
            assert (await peer.read_range(0))[0].err_code == Code.FORBIDDEN
            assert state(broker).store.partitions() == [("other", 0)]
            assert not state(broker).store.positions()
            assert not any(path.parts[4:5] == ("demo",) for path in disk.files() if "logs" in path.parts)
            scripted.says = listed()
            await until(lambda: not scripted.heartbeats[-1].removed_topics_info)
            scripted.push(topic("other"), topic("demo", 1))
            await until(lambda: state(broker).topics.get("demo"))
            assert (await peer.send(b"new")).append_offset == 0
        async with running(disk, masters=(scripted.address,)) as broker, connected(broker) as peer:
            assert [message.payload for message in (await peer.read_range(0))[1]] == [b"new"]
            assert (await peer.register()).curr_offset == 0


@pytest.mark.parametrize("name", ["/data/other", "../../../other", "..", ".", "demo/0", "a\nb"])
async def test_a_removal_that_names_no_topic_removes_nothing_and_shows(name: str) -> None:
    disk = FaultyDisk()
    elsewhere = Path("/data/other/partition/file")
    disk.makedirs(elsewhere.parent)
    disk.open(elsewhere, create=True).close()
    async with (
        master(topic("demo"), topic("last"), capabilities=OLD) as scripted,
        running(disk, masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
        connected(broker) as peer,
    ):
        await peer.send(b"kept")
        scripted.says = listed(name, "last")
        await until(lambda: scripted.heartbeats[-1].removed_topics_info == ("last",))
        assert any("request to remove a topic" in problem for problem in broker.health()["problems"])
        assert disk.exists(elsewhere)
        assert (await peer.send(b"kept too")).success
        assert (await peer.read_range(0))[1][0].payload == b"kept"


async def test_a_topic_that_is_removed_while_everybody_uses_it_troubles_nobody_else() -> None:
    async with (
        master(topic("demo", 3), topic("other"), capabilities=OLD) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
        connected(broker) as peer,
        connected(broker) as reader,
        connected(broker) as producer,
    ):
        await peer.register()
        held = asyncio.ensure_future(peer.get(max_wait_ms=20_000))
        ranged = asyncio.ensure_future(reader.read_range(0, 1, max_wait_ms=20_000))
        await until(lambda: broker.health()["held_fetches"] == 2)
        scripted.says = listed("demo")
        codes = set()
        while Code.FORBIDDEN not in codes:
            codes.add((await producer.send(topic="demo", partition_id=2)).err_code)
            assert (await producer.send(topic="other")).success
        assert codes <= {Code.SUCCESS, Code.FORBIDDEN}
        assert (await held)[0].err_code == Code.HB_NO_NODE
        assert (await ranged)[0].err_code == Code.FORBIDDEN
        await until(lambda: scripted.heartbeats[-1].removed_topics_info == ("demo",))
        assert broker.health()["status"] == "ok"


async def test_a_topic_that_cannot_be_removed_now_is_shown_and_removed_later() -> None:
    disk = FaultyDisk()
    async with (
        master(topic("demo"), capabilities=OLD) as scripted,
        running(disk, masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
        connected(broker) as peer,
    ):
        await peer.send()
        disk.fail(Operation.WRITE, errno.ENOSPC, path_contains="checkpoint")
        scripted.says = listed("demo")
        await until(lambda: any("demo cannot be removed yet" in problem for problem in broker.health()["problems"]))
        assert not scripted.heartbeats[-1].removed_topics_info
        disk.heal()
        await until(lambda: scripted.heartbeats[-1].removed_topics_info == ("demo",))
        await until(lambda: broker.health()["status"] == "ok")


async def test_a_removal_that_fails_for_a_reason_of_ours_is_shown_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        master(topic("demo"), capabilities=OLD) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
    ):
        drop = state(broker).store.drop

        def fails_once(name: str) -> None:
            monkeypatch.setattr(state(broker).store, "drop", drop)
            raise RuntimeError("a fault of ours")

        monkeypatch.setattr(state(broker).store, "drop", fails_once)
        scripted.says = listed("demo")
        await until(lambda: any("RuntimeError: a fault of ours" in problem for problem in broker.health()["problems"]))
        await until(lambda: scripted.heartbeats[-1].removed_topics_info == ("demo",))
        await until(lambda: broker.health()["status"] == "ok")


class LaterClock(SystemClock):
    """A clock that can be put forward."""

    ahead_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.ahead_s


async def test_clients_without_the_masters_token_are_refused_when_it_says_so() -> None:
    clock = LaterClock()
    async with master(topic("demo"), capabilities=OLD) as scripted:
        scripted.says_first = {
            "enable_broker_info": EnableBrokerFunInfo(
                enable_consume_authenticate=False,
                enable_consume_authorize=False,
                enable_produce_authenticate=True,
                enable_produce_authorize=False,
                enable_visit_token_check=True,
            )
        }
        scripted.says = {"broker_authorized_info": MasterBrokerAuthorizedInfo(visit_authorized_token="11,x,12")}
        broker = service(masters=(scripted.address,), heartbeat_period_s=0.01)
        broker._clock = clock
        await broker.start()
        try:
            async with connected(broker) as peer:
                await _tokens(scripted, broker, clock, peer)
        finally:
            await broker.close()


async def _tokens(scripted: ScriptedMaster, broker: BrokerService, clock: LaterClock, peer: Peer) -> None:
    refused = await peer.send()
    assert refused.err_code == Code.CERTIFICATE_FAILURE
    assert "authAuthorizedToken" in refused.err_msg
    assert (await peer.register()).success, "new tokens may be on their way"
    clock.ahead_s = NEW_TOKENS_S + 1
    assert (await peer.register()).err_code == Code.CERTIFICATE_FAILURE
    assert (await peer.heartbeat("1:127.0.0.1:8123#demo:0")).err_code == Code.CERTIFICATE_FAILURE
    for token, code in ((11, Code.SUCCESS), (12, Code.SUCCESS), (-2, Code.CERTIFICATE_FAILURE)):
        info = AuthorizedInfo(visit_authorized_token=token)
        assert (await peer.register(auth_info=info)).err_code == code
    shown: list[tuple[AuthorizedInfo | None, Code]] = [(AuthorizedInfo(visit_authorized_token=11), Code.SUCCESS)]
    shown.append((None, Code.CERTIFICATE_FAILURE))
    for auth_info, code in shown:
        moving = ResetOffsetsRequest(client_id=peer.client_id, group_name="g", user="ann", auth_info=auth_info)
        moved = await peer.connection.request(
            moving, ResetOffsetsResponse, Method.RESET_OFFSETS, 2, timeout_s=TIMEOUT_S
        )
        asking = ResetHistoryRequest(client_id=peer.client_id, auth_info=auth_info)
        told = await peer.connection.request(asking, ResetHistoryResponse, Method.RESET_HISTORY, 2, timeout_s=TIMEOUT_S)
        assert (moved.err_code, told.err_code) == (code, code)
        read, ends = (
            (await peer.read_range(0, auth_info=auth_info))[0],
            await peer.offsets(("demo", 0), auth_info=auth_info),
        )
        empty = Code.NOT_FOUND if code is Code.SUCCESS else code
        assert (read.err_code, ends.err_code) == (empty, code)
        assert (read.max_offset is None, not ends.partitions) == (code is not Code.SUCCESS,) * 2, "nothing is told"
    assert "12" not in (await peer.register()).err_msg
    assert (await peer.get())[0].err_code == Code.NOT_FOUND, "a fetch relies on its registration"
    await scripted.stop()
    await until(lambda: not state(broker).access.visit_tokens.in_touch)
    assert (await peer.register()).success, "who may come cannot be known while the Master is away"


async def test_a_fetch_that_is_held_is_refused_when_reading_stops_meanwhile() -> None:
    async with (
        master(topic("demo"), capabilities=OLD) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
        connected(broker) as peer,
        connected(broker) as producer,
    ):
        for stop in (partial(setattr, scripted, "stop_read", True), partial(scripted.push, topic("demo", status=2))):
            scripted.stop_read = False
            await until(lambda: not state(broker).serving.read_stopped)
            await peer.register()
            held = asyncio.ensure_future(peer.get(max_wait_ms=20_000))
            await until(lambda: broker.health()["held_fetches"] == 1)
            stop()
            await until(lambda: state(broker).serving.read_stopped or not state(broker).topics.get("demo").readable)  # type: ignore[union-attr]
            state(broker).waiters.wake([("demo", 0)])
            assert (await held)[0].err_code in (Code.SERVICE_UNAVAILABLE, Code.FORBIDDEN)
        assert (await producer.send()).err_code == Code.FORBIDDEN


async def test_partitions_that_are_added_are_served_and_those_before_go_on() -> None:
    async with (
        master(topic("demo"), capabilities=OLD) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
        connected(broker) as peer,
    ):
        await peer.send(b"first")
        await peer.register()
        held = asyncio.ensure_future(peer.get(manual_commit_offset=True))
        assert len((await held)[1]) == 1
        assert (await peer.register(1)).err_code == Code.INTERNAL_SERVER_ERROR
        assert (await peer.send(partition_id=1)).err_code == Code.FORBIDDEN
        scripted.push(topic("demo", 2))
        await until(lambda: len(state(broker).topics.get("demo").partition_ids) == 2)  # type: ignore[union-attr]
        assert (await peer.send(partition_id=1)).append_offset == 0
        assert (await peer.register(1)).success
        assert (await peer.commit()).curr_offset == 28, "the hold from before is as it was"
        await until(lambda: scripted.heartbeats[-1].cur_broker_conf_id == scripted.conf_id)
