"""A Broker and its Master, whom the test plays: registration, configuration, loss and return."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.broker.upkeep import master_session
from pytubemq.core.retry import Backoff
from pytubemq.errors import Code
from pytubemq.model.ids import Address
from pytubemq.testing.disk import FaultyDisk, Operation
from pytubemq.wire.protocol.extensions import Capability
from tests.scenario.broker.scripted_master import DEFAULT, master, topic
from tests.scenario.broker.support import connected, running, service
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio


async def test_the_first_topics_are_served_and_reported_before_start_returns() -> None:
    async with master(topic("demo", 2)) as scripted:
        async with running(masters=(scripted.address,), advertised=Address("10.0.0.9", 8123)) as broker:
            assert scripted.registrations[0].client_id.startswith("1:10.0.0.9:8123:")
            first = scripted.heartbeats[0]
            assert (first.broker_id, first.broker_online, first.take_conf_info) == ("1", True, True)
            assert (first.cur_broker_conf_id, first.conf_check_sum_id) == (1, 10)
            assert (first.broker_default_conf_info, first.broker_topic_set_conf_info) == (DEFAULT, (topic("demo", 2),))
            async with connected(broker) as peer:
                assert (await peer.send(partition_id=1)).success
                assert (await peer.send(bytes(2_000_000))).success, "the cluster's limit holds"
            assert broker.health()["registered"] is True
        assert [farewell.broker_id for farewell in scripted.farewells] == ["1"]


async def test_news_come_with_a_held_heartbeat_and_are_reported_at_once() -> None:
    async with master(topic("demo")) as scripted, running(masters=(scripted.address,)) as broker:
        await until(lambda: scripted.held)
        assert scripted.heartbeats[-1].max_wait_ms == 10_000
        count = len(scripted.heartbeats)
        scripted.push(topic("demo"), topic("fresh"))
        await until(lambda: len(scripted.heartbeats) > count)
        report = scripted.heartbeats[count]
        assert (report.cur_broker_conf_id, report.take_conf_info, report.max_wait_ms) == (2, True, None)
        assert report.broker_topic_set_conf_info == (topic("demo"), topic("fresh"))
        async with connected(broker) as peer:
            assert (await peer.send(topic="fresh")).success


async def test_a_master_that_does_not_hold_heartbeats_is_not_asked_to() -> None:
    async with (
        master(topic("demo"), capabilities=Capability(0)) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
    ):
        await until(lambda: len(scripted.heartbeats) > 3)
        assert {beat.max_wait_ms for beat in scripted.heartbeats} == {None}
        assert [beat.take_conf_info for beat in scripted.heartbeats[:3]] == [True, False, False]
        scripted.push(topic("fresh"))
        await until(lambda: broker._state and broker._state.topics.get("fresh"))
        async with connected(broker) as peer:
            assert (await peer.send(topic="fresh")).success
            assert (await peer.send(topic="demo")).err_code == Code.FORBIDDEN, "no longer deployed here"


async def test_a_topic_that_is_soft_deleted_is_read_and_not_written() -> None:
    async with (
        master(topic("demo"), capabilities=Capability(0)) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
        connected(broker) as peer,
    ):
        await peer.send()
        await peer.register()
        scripted.push(topic("demo", status=1))
        await until(lambda: broker._state and not broker._state.topics.get("demo").writable)  # type: ignore[union-attr]
        assert (await peer.send()).err_code == Code.FORBIDDEN
        assert (await peer.commit()).err_code == Code.FORBIDDEN
        assert len((await peer.get())[1]) == 1
        scripted.push(topic("demo", status=2))
        await until(lambda: broker._state and not broker._state.topics.get("demo").readable)  # type: ignore[union-attr]
        assert (await peer.get())[0].err_code == Code.FORBIDDEN


async def test_stopped_reads_and_writes_are_refused_until_they_go_on() -> None:
    async with (
        master(topic("demo"), capabilities=Capability(0)) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
        connected(broker) as peer,
    ):
        await peer.register()
        scripted.stop_read = scripted.stop_write = True
        serving = broker._state.serving if broker._state else None
        assert serving is not None
        await until(lambda: serving.write_stopped)
        assert (await peer.send()).err_code == Code.SERVICE_UNAVAILABLE
        assert (await peer.get())[0].err_code == Code.SERVICE_UNAVAILABLE
        scripted.stop_read = scripted.stop_write = False
        await until(lambda: not serving.write_stopped)
        assert (await peer.send()).success


async def test_a_broker_that_is_not_known_any_more_registers_anew() -> None:
    async with (
        master(topic("demo"), capabilities=Capability(0)) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01),
    ):
        scripted.known = False
        await until(lambda: len(scripted.registrations) == 2)
        assert scripted.registrations[1].cur_broker_conf_id == 1, "it says what it serves"


async def test_a_master_that_forgets_at_each_heartbeat_is_not_asked_in_a_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []

    class Counted(Backoff):
        def delay_s(self, attempt: int, rng: Callable[[], float]) -> float:
            pauses.append(attempt)
            return 0.01

    monkeypatch.setattr(master_session, "_BACKOFF", Counted())
    async with (
        master(topic("demo"), capabilities=Capability(0)) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01),
    ):
        scripted.says = {"success": False, "err_code": Code.HB_NO_NODE, "err_msg": "register first"}
        await until(lambda: len(pauses) >= 4)
        assert pauses[:4] == [1, 2, 3, 4], "the first registration comes at once"
        scripted.says = {}
        registered = len(scripted.registrations)
        await until(lambda: len(scripted.heartbeats) > registered + len(pauses) + 10)
        pauses.clear()
        registered = len(scripted.registrations)
        scripted.known = False
        await until(lambda: len(scripted.registrations) > registered)
        assert not pauses


async def test_a_master_with_news_in_each_response_is_not_asked_in_a_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    async with master(topic("demo")) as scripted, running(masters=(scripted.address,)):
        began = asyncio.Event()
        respond = scripted._answer

        def respond_with_news(call: Call) -> None:
            scripted.conf_id += 1
            respond(call)
            if len(scripted.heartbeats) > before + master_session._MAX_IN_A_ROW + 5:
                began.set()

        before = len(scripted.heartbeats)
        monkeypatch.setattr(master_session, "_UNHELD_PAUSE_S", 3600.0)
        monkeypatch.setattr(scripted, "_answer", respond_with_news)
        scripted.push(topic("demo"))
        await until(lambda: len(scripted.heartbeats) > before + master_session._MAX_IN_A_ROW - 5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await began.wait()


async def test_without_a_master_it_serves_on_and_comes_back_to_it() -> None:
    async with (
        master(topic("demo")) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
        connected(broker) as peer,
    ):
        await scripted.stop()
        await until(lambda: broker.health()["status"] == "degraded")
        assert any("Master" in problem for problem in broker.health()["problems"])
        assert (await peer.send()).success
        await scripted.start()
        await until(lambda: len(scripted.registrations) == 2)
        await until(lambda: broker.health()["status"] == "ok")


async def test_a_start_without_a_master_serves_the_topics_it_was_told_last() -> None:
    disk = FaultyDisk()
    async with master(topic("demo")) as scripted:
        async with running(disk, masters=(scripted.address,)) as broker, connected(broker) as peer:
            await peer.send(b"kept")
        await scripted.stop()
        async with running(disk, masters=(scripted.address,)) as broker, connected(broker) as peer:
            assert (await peer.send()).append_offset == 28
            assert broker.health()["registered"] is False
            await scripted.start()
            await until(lambda: broker.health()["registered"])
            assert scripted.registrations[-1].broker_topic_set_conf_info == (topic("demo"),)


async def test_a_refusal_shows_and_is_tried_again() -> None:
    async with master(topic("demo")) as scripted:
        scripted.refuse = Code.BAD_REQUEST
        async with running(masters=(scripted.address,)) as broker:
            assert any("no such Broker is configured" in problem for problem in broker.health()["problems"])
            scripted.refuse = None
            await until(lambda: broker.health()["status"] == "ok")


async def test_a_configuration_that_cannot_be_used_changes_nothing_and_shows() -> None:
    async with (
        master(topic("demo"), capabilities=Capability(0)) as scripted,
        running(masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
        connected(broker) as peer,
    ):
        scripted.push(topic("../etc"))
        await until(lambda: any("../etc" in problem for problem in broker.health()["problems"]))
        assert (await peer.send()).success
        scripted.push(topic("demo"), topic("fresh"))
        await until(lambda: broker.health()["status"] == "ok" and broker.health()["topics"] == 2)


async def test_topics_that_cannot_be_written_down_are_not_served_yet() -> None:
    disk = FaultyDisk()
    async with (
        master(topic("demo"), capabilities=Capability(0)) as scripted,
        running(disk, masters=(scripted.address,), heartbeat_period_s=0.01) as broker,
    ):
        disk.fail(Operation.OPEN, path_contains="topics.json")
        scripted.push(topic("demo"), topic("fresh"))
        await until(lambda: any("topics cannot be written" in problem for problem in broker.health()["problems"]))
        assert broker.health()["topics"] == 1
        disk.heal()
        await until(lambda: broker.health()["topics"] == 2)


async def test_damaged_topics_are_named_set_aside_and_sent_again_by_the_master() -> None:
    disk = FaultyDisk()
    async with master(topic("demo")) as scripted:
        async with running(disk, masters=(scripted.address,)) as broker, connected(broker) as peer:
            assert (await peer.send()).success
            path = broker.directory / "topics.json"
        disk.flip_bit(path, disk.content(path).index(b"168h"))
        await scripted.stop()
        async with running(disk, masters=(scripted.address,)) as broker:
            assert any(f"{path} is damaged" in problem for problem in broker.health()["problems"])
            assert broker.health()["topics"] == 0, "nothing of it is believed"
            asked = len(scripted.registrations)
            await scripted.start()
            await until(lambda: broker.health()["status"] == "ok")
            assert scripted.registrations[asked].broker_topic_set_conf_info == ()
            async with connected(broker) as peer:
                assert (await peer.send()).success
                assert broker.inspect.partitions(["demo"])[0].max_offset == 2 * 28
        assert disk.exists(broker.directory / "topics.json.damaged")


@pytest.mark.parametrize("topics", [(), (topic("demo", 1),)])
async def test_topics_of_the_store_that_a_master_passes_over_are_shown(topics: tuple[str, ...]) -> None:
    """Such a Master does not read the report; it sends what it knows in its answer to the registration."""
    disk = FaultyDisk()
    async with master(topic("demo", 2), topic("lost", 2)) as scripted:
        async with running(disk, masters=(scripted.address,)) as broker, connected(broker) as peer:
            for name in ("demo", "lost"):
                assert (await peer.send(topic=name, partition_id=1)).success
            path = broker.directory / "topics.json"
        disk.unlink(path)
        scripted.topics, scripted.conf_id = topics, 7
        async with running(disk, masters=(scripted.address,)) as broker:
            assert [text[:6] for text in scripted.registrations[-1].stored_topics] == ["demo:2", "lost:2"]
            problems = broker.health()["problems"]
            missing = "lost" if topics else "demo, lost"
            assert f"the store has {missing}, which the Master does not know" in str(problems)
            scripted.push(topic("demo", 2), topic("lost", 2))
            await until(lambda: broker.health()["status"] == "ok")


async def test_an_answer_that_was_not_waited_for_is_asked_for_again_at_once() -> None:
    """The Master took the list of removals for told: it would say it again with its next news only."""
    disk = FaultyDisk()
    async with master(topic("demo")) as scripted, running(disk, masters=(scripted.address,)) as broker:
        await until(lambda: scripted.held)
        scripted.says = {"take_remove_topic_info": True, "remove_topic_conf_info": (topic("gone", status=2),)}
        count = len(scripted.heartbeats)
        disk.fail(Operation.FREE_BYTES)  # news of the Broker's own
        await until(lambda: len(scripted.heartbeats) > count)
        assert not scripted.heartbeats[count].max_wait_ms
        assert broker._orders is not None
        await until(lambda: broker._orders.removal.hidden == {"gone"})  # type: ignore[union-attr]
        disk.heal()


async def test_a_start_that_fails_leaves_nothing_behind() -> None:
    disk, before = FaultyDisk(), asyncio.all_tasks()
    async with running() as other:
        taken = service(disk, listen=other.address)
        with pytest.raises(Exception, match="in use"):
            await taken.start()
    async with running(disk) as broker:
        assert broker.health()["status"] == "ok"
    assert asyncio.all_tasks() == before
