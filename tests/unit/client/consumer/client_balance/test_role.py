"""What a self-balancing consumer says to the Master: held against the conversation recorded from the Java client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.client.consumer.client_balance.role import REPORT_EVERY, BalanceRole
from pytubemq.client.options import BalanceOptions
from pytubemq.client.session.flow_rules import FlowControl
from pytubemq.core.flow import DataLimit, EmptyReads
from pytubemq.errors import ConnectionLostError, NotRegisteredError
from pytubemq.model.ids import Address, BrokerInfo, Partition
from pytubemq.wire.framing.frame import FrameDecoder
from pytubemq.wire.protocol.messages.master import (
    HeartRequestC2MV2,
    HeartResponseM2CV2,
    OpsTaskInfo,
    RegisterRequestC2MV2,
    RegisterResponseM2CV2,
)
from pytubemq.wire.rpc.envelope import decode_response
from pytubemq.wire.rpc.methods import METHODS, Method
from pytubemq.wire.serialization.message_bytes import decode
from pytubemq.wire.text.broker_strings import parse_broker_info
from tests.support.waiting import until
from tests.unit.wire.golden import as_recorded

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pytubemq.wire.protocol.extensions import Capability

pytestmark = pytest.mark.anyio

RECORDED = [
    json.loads(line) for line in (Path(__file__).parents[4] / "vectors/balance-master.jsonl").read_text().splitlines()
]
OUR_OWN = {"clientId", "hostName", "jdkVersion", "lstAssignedTime"}
"""Fields in which two clients differ; Java's version of Java is not ours to tell."""
RULES_ID = 1795199670277
OK: dict[str, Any] = {"err_code": 200, "err_msg": "OK!"}


def recorded(name: str, direction: str) -> dict[str, Any]:
    """A frame of the conversation."""
    found: dict[str, Any] = next(line for line in RECORDED if line["name"] == f"{name}.{direction}")
    return found


def answer(name: str) -> Any:
    """The Java Master's answer."""
    line = recorded(name, "response")
    (frame,) = FrameDecoder().feed(bytes.fromhex(line["frame_hex"]))
    return decode(METHODS[Method(line["method"])].response, decode_response(frame).body)


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what is of one client alone, and lists whose order says nothing in order."""
    found: dict[str, Any] = {}
    for name, value in message.items():
        if name in OUR_OWN:
            continue
        if isinstance(value, dict):
            found[name] = plain(value)
        elif name == "partSubInfo":
            found[name] = sorted((one.partition("#")[0], sorted(one.partition("#")[2].split(","))) for one in value)
        else:
            found[name] = value
    return found


class FakeCluster:
    """Answers what it is given, and keeps what was asked."""

    host = "127.0.0.1"
    parse_broker = staticmethod(parse_broker_info)

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: list[Any] = []
        self.brokers: list[BrokerInfo] = []
        self.token = -2

    async def call_master(self, message: Any, response: type, method: Method, *, wait_s: float = 0.0) -> Any:
        self.asked.append(message)
        found = self.answers.pop(0)
        if isinstance(found, BaseException):
            raise found
        assert isinstance(found, response)
        assert METHODS[method].request is type(message)
        return found

    def master_has(self, capability: Capability) -> bool:
        return False

    def learn_brokers(self, brokers: list[BrokerInfo]) -> None:
        self.brokers += brokers

    def learn_token(self, told: Any, client_id: str) -> None:
        if told is not None:
            self.token = told.visit_authorized_token


class Stage:
    """A role, and what it is told of its surroundings."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.held: list[Partition] = []
        self.changes = 0
        self.sent_to_newest = 0
        self.pokes = 0
        self.flow = FlowControl("g_bal", lambda: None)
        self.client_id = "g_bal_1"
        self.options = BalanceOptions(
            "g_bal",
            "filt",
            "demo",
            filters={"filt": ["abc"]},
            node_id=0,
            source_count=2,
            meta_check_s=0.1,
        )
        self.role = BalanceRole(
            self,  # type: ignore[arg-type]
            held=lambda: self.held,
            changed=self.changed,
            to_newest=self.to_newest,
            work=self.work,
            poke=self.poke,
        )

    def changed(self) -> None:
        self.changes += 1

    def to_newest(self) -> None:
        self.sent_to_newest += 1

    def poke(self) -> None:
        self.pokes += 1

    def work(self, job: Coroutine[Any, Any, None]) -> None:
        job.close()
        raise AssertionError("no heartbeat is held here")

    async def say(self, name: str) -> None:
        """Say what the frame of this name says, and take its answer."""
        self.cluster.answers.append(answer(name))
        if "meta" in name:
            self.role._queried_s = float("-inf")
            await self.role.refresh_metadata()
        elif "register" in name:
            await self.role.register()
        else:
            await self.role.heartbeat()
        wanted = recorded(name, "request")["decoded"]
        (like,) = (
            value for key, value in wanted.items() if key not in ("RpcConnHeader", "RequestHeader", "RequestBody")
        )
        assert plain(as_recorded(self.cluster.asked[-1], like)) == plain(like), name

    async def beat(self, found: Any) -> Any:
        """A heartbeat with its answer; returns what was said."""
        self.cluster.answers.append(found)
        await self.role.heartbeat()
        return self.cluster.asked[-1]


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_the_conversation_of_the_java_client(stage: Stage) -> None:
    await stage.say("balance_register.200.1")
    assert stage.cluster.token == 1795199476804
    assert stage.cluster.brokers == [
        BrokerInfo(1, Address("127.0.0.1", 8123)),
        BrokerInfo(2, Address("127.0.0.2", 28123)),
    ]
    assert stage.flow.default_id == RULES_ID
    assert stage.flow.rules.cluster.data_limits == (DataLimit(0, 2400, 21, 1, 1000),)
    assert stage.flow.rules.cluster.empty_reads == (EmptyReads(5, 3000),)
    await stage.say("balance_heartbeat.200.1")
    assert stage.changes == 0
    await stage.say("balance_get_part_meta.200.1")
    assert stage.changes == 1
    everything = [
        Partition(1, "demo", 0),
        Partition(1, "demo", 1),
        Partition(1, "demo", 2),
        Partition(1, "filt", 0),
        Partition(2, "demo", 0),
        Partition(2, "demo", 1),
    ]
    assert dict(stage.role.meta.partitions) == dict.fromkeys(everything, True)
    stage.held = everything
    await stage.say("balance_heartbeat.200.2")
    await stage.say("balance_heartbeat.200.3")
    await stage.say("balance_heartbeat.200.4")
    await stage.say("balance_get_part_meta.200.2")
    assert stage.changes == 1
    stage.held = everything[1:]
    await stage.say("balance_heartbeat.200.5")
    assert stage.flow.default_id == RULES_ID


async def test_what_is_held_is_told_when_it_changed_and_every_sixtieth_time(stage: Stage) -> None:
    stage.held = [Partition(1, "demo", 0)]
    told = [(await stage.beat(HeartResponseM2CV2(**OK))).sub_rep_info.report_sub_info for _ in range(REPORT_EVERY)]
    assert told == [True] + [False] * (REPORT_EVERY - 2) + [True]
    stage.held = []
    assert (await stage.beat(HeartResponseM2CV2(**OK))).sub_rep_info.report_sub_info
    told = [(await stage.beat(HeartResponseM2CV2(**OK))).sub_rep_info.report_sub_info for _ in range(REPORT_EVERY)]
    assert not any(told)


async def test_a_report_that_was_not_answered_is_told_again(stage: Stage) -> None:
    stage.held = [Partition(1, "demo", 0)]
    with pytest.raises(ConnectionLostError):
        await stage.beat(ConnectionLostError("gone"))
    said: HeartRequestC2MV2 = await stage.beat(HeartResponseM2CV2(**OK))
    assert said.sub_rep_info is not None
    assert said.sub_rep_info.part_sub_info == ("demo#1:0",)


async def test_a_registration_anew_tells_everything_that_is_held(stage: Stage) -> None:
    stage.held = [Partition(2, "demo", 1), Partition(1, "filt", 0), Partition(1, "demo", 0)]
    await stage.beat(HeartResponseM2CV2(**OK))
    stage.cluster.answers.append(RegisterResponseM2CV2(**OK))
    await stage.role.register()
    said: RegisterRequestC2MV2 = stage.cluster.asked[-1]
    assert said.sub_rep_info is not None
    assert said.sub_rep_info.report_sub_info
    assert said.sub_rep_info.part_sub_info == ("demo#1:0,2:1", "filt#1:0")


async def test_partitions_that_say_nothing_new_are_passed_over(stage: Stage) -> None:
    topics = ("demo#1:1:2:1",)
    await stage.beat(HeartResponseM2CV2(**OK, topic_meta_info_id=5, topic_meta_info_list=topics))
    known = stage.role.meta.partitions
    for meta_id, texts in ((5, ("demo#1:1:9:1",)), (-2, topics), (6, ()), (None, topics)):
        await stage.beat(HeartResponseM2CV2(**OK, topic_meta_info_id=meta_id, topic_meta_info_list=texts))
        assert stage.role.meta.partitions is known
    assert stage.changes == 1
    await stage.beat(HeartResponseM2CV2(**OK, topic_meta_info_id=6, topic_meta_info_list=("demo#1:2:1:0",)))
    assert dict(stage.role.meta.partitions) == {Partition(1, "demo", 0): False, Partition(1, "demo", 10_000): False}


async def test_what_names_too_many_partitions_is_left_out(stage: Stage) -> None:
    texts = ("demo#1:1000000:1000000:1,2:1:1:1",)
    await stage.beat(HeartResponseM2CV2(**OK, topic_meta_info_id=5, topic_meta_info_list=texts))
    assert [partition.broker_id for partition in stage.role.meta.partitions] == [2]


async def test_rules_that_are_left_out_are_over(stage: Stage) -> None:
    await stage.say("balance_register.200.1")
    await stage.beat(HeartResponseM2CV2(**OK, ops_task_info=OpsTaskInfo(def_flow_check_id=RULES_ID)))
    assert stage.flow.rules.cluster.count == 2
    await stage.beat(HeartResponseM2CV2(**OK))  # an answer that does not speak of it
    assert stage.flow.rules.cluster.count == 2
    said = await stage.beat(HeartResponseM2CV2(**OK, ops_task_info=OpsTaskInfo()))
    assert said.ops_task_info == OpsTaskInfo(def_flow_check_id=RULES_ID)
    assert stage.flow.rules.cluster.count == 0
    said = await stage.beat(HeartResponseM2CV2(**OK, ops_task_info=OpsTaskInfo()))
    assert said.ops_task_info is None


async def test_the_command_to_go_to_the_newest_is_followed_once_and_not_from_before(stage: Stage) -> None:
    def to_newest(number: int | None) -> OpsTaskInfo:
        return OpsTaskInfo(csm_frm_max_offset_ctrl_id=number)

    stage.cluster.answers.append(RegisterResponseM2CV2(**OK, ops_task_info=to_newest(100)))
    await stage.role.register()
    for number, times in ((100, 0), (None, 0), (200, 1), (200, 1), (100, 1), (300, 2)):
        await stage.beat(HeartResponseM2CV2(**OK, ops_task_info=to_newest(number)))
        assert stage.sent_to_newest == times
    stage.cluster.answers.append(RegisterResponseM2CV2(**OK, ops_task_info=to_newest(400)))
    await stage.role.register()  # given while we were away
    assert stage.sent_to_newest == 3


async def test_a_master_that_forgot_us_is_told_of_it_by_the_membership(stage: Stage) -> None:
    stage.cluster.answers.append(NotRegisteredError("who is that?", code=411))
    with pytest.raises(NotRegisteredError):
        await stage.role.refresh_metadata()
    assert stage.pokes == 1


async def test_many_changes_are_told_together(stage: Stage) -> None:
    for _ in range(10):
        stage.role.report_soon()
    timer = stage.role._report_timer
    assert timer is not None
    await until(lambda: timer.cancelled() or stage.role._report_timer is not timer)
    assert stage.pokes == 1
