"""What is acknowledged, what is readable, and what is there after a stop, a full disk or a failed one."""

from __future__ import annotations

import asyncio
import errno
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.broker.upkeep import periodic_checks
from pytubemq.broker.upkeep.periodic_checks import PROBE_NAME
from pytubemq.errors import Code, DirectoryLockedError, RequestTimeoutError
from pytubemq.model.durability import Durability
from pytubemq.model.limits import MIB
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from pytubemq.wire.fast import sends as hot
from pytubemq.wire.protocol.messages.broker import GetMessageRequestC2B
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import encode
from tests.scenario.broker.held_writes import HeldWrites
from tests.scenario.broker.support import applied, apply_now, connected, item, running, service
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.anyio

FROM_MEMORY = StoreSettings(durability=Durability.MEMORY, reserve_bytes=0, journal_padding_bytes=0)


async def test_nothing_is_readable_or_acknowledged_before_it_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, connected(broker) as peer, connected(broker) as reader:
        held = HeldWrites(broker, monkeypatch)
        sends = [asyncio.create_task(peer.send(b"%d" % n)) for n in range(3)]
        await until(lambda: held.entered == 1)
        head, _ = await reader.read_range(0)
        assert (head.err_code, head.max_offset) == (Code.NOT_FOUND, 0)
        assert not any(send.done() for send in sends)
        held.go.set()
        assert [answer.append_offset for answer in await asyncio.gather(*sends)] == [0, 28, 56]
        assert len((await reader.read_range(0))[1]) == 3


async def test_what_comes_in_during_a_write_goes_out_together_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, connected(broker) as peer:
        held = HeldWrites(broker, monkeypatch)
        first = asyncio.create_task(peer.send())
        await until(lambda: held.entered == 1)
        more = [asyncio.create_task(peer.send(b"%d" % n)) for n in range(20)]
        await until(lambda: peer.connection.in_flight == 21)
        await peer.offsets()  # answered after all sends before it were taken in
        held.go.set()
        answers = await asyncio.gather(first, *more)
        assert [answer.append_offset for answer in answers] == [28 * n for n in range(21)]
        assert held.entered == 2


async def test_more_than_may_wait_is_refused_and_a_request_alone_never_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(max_staged_bytes=1 * MIB) as broker, connected(broker) as peer:
        held = HeldWrites(broker, monkeypatch)
        first = asyncio.create_task(peer.send(bytes(MIB)))
        await until(lambda: held.entered == 1)
        second = asyncio.create_task(peer.send(bytes(MIB)))
        await until(lambda: broker.health()["staged_bytes"] > 2 * MIB)
        refused = await peer.send(bytes(1000))
        assert refused.err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert "retry later" in refused.err_msg
        held.go.set()
        assert (await first).success
        assert (await second).success
        assert (await peer.send(bytes(1000))).success
        assert broker.health()["overflows"] == 1
        assert broker.health()["staged_bytes"] == 0


async def test_a_request_that_waited_longer_than_it_allows_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as broker, connected(broker) as peer:
        held = HeldWrites(broker, monkeypatch)
        first = asyncio.create_task(peer.send(b"in time"))
        await until(lambda: held.entered == 1)
        with pytest.raises(RequestTimeoutError):
            await peer.send_many([item(b"too late")], timeout_s=0.05)
        held.go.set()
        assert (await first).success
        await until(lambda: broker.health()["expired"] == 1)
        assert (await peer.send(b"next")).append_offset == 28, "the dropped one has left no gap"
        _, messages = await peer.read_range(0)
        assert [message.payload for message in messages] == [b"in time", b"next"]


async def test_entries_of_a_batch_are_accepted_or_refused_one_by_one() -> None:
    async with running() as broker, connected(broker) as peer:
        answer = await peer.send_many([item(b"a"), item(b"", 0), item(b"b", 9), item(bytes(2 * MIB)), item(b"c", 2)])
        assert list(answer.err_codes) == [200, 400, 403, 400, 200]
        assert list(answer.offsets) == [0, -1, -1, -1, 0]
        assert (answer.success, answer.err_code) == (False, 400)
        assert "empty" in answer.err_msg
        assert (await peer.send_many([item(b"")])).err_code == Code.BAD_REQUEST
        assert (await peer.send_many([])).err_code == Code.BAD_REQUEST
        peer.topic = "nosuch"
        unknown = await peer.send_many([item()])
        assert (unknown.err_code, list(unknown.err_codes)) == (Code.FORBIDDEN, [])
        assert "nosuch" in unknown.err_msg


@pytest.mark.parametrize("durability", list(Durability))
async def test_a_restart_goes_on_where_it_stopped(durability: Durability) -> None:
    disk = FaultyDisk()
    async with running(disk, store=replace(FROM_MEMORY, durability=durability)) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n, n % 3) for n in range(30)])
        await peer.register()
        await peer.get(max_messages=4)
        await peer.commit()
        await peer.get()  # fetched and not confirmed: a clean stop must not confirm it
    async with running(disk, store=replace(FROM_MEMORY, durability=durability)) as broker, connected(broker) as peer:
        assert (await peer.get())[0].err_code == Code.HB_NO_NODE
        assert (await peer.register()).curr_offset == 112
        _, messages = await peer.get()
        assert [message.payload for message in messages] == [b"%d" % n for n in range(12, 30, 3)]
        assert (await peer.send(b"more")).append_offset == 280


async def test_a_crash_loses_nothing_that_was_acknowledged() -> None:
    disk = FaultyDisk(seed=4)
    broker = service(disk)
    await broker.start()
    async with connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(50)])
        await peer.register()
        await peer.get(max_messages=7)
        assert (await peer.commit()).curr_offset == 196
        disk.crash()
    await broker.close()
    async with running(disk) as again, connected(again) as peer:
        assert (await peer.register()).curr_offset == 196
        _, messages = await peer.get()
        assert [message.payload for message in messages] == [b"%d" % n for n in range(7, 50)]


async def test_a_full_disk_refuses_sends_keeps_reading_and_ends_when_there_is_space() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        disk.capacity_bytes = 0
        refused = await peer.send(bytes(1000))
        assert refused.err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert "disk is full" in refused.err_msg
        assert broker.health()["status"] == "degraded"
        assert any("disk full" in problem for problem in broker.health()["problems"])
        _, messages = await peer.get(max_messages=3)
        assert len(messages) == 3
        head, messages = await peer.get(last_pack_consumed=True, max_messages=3)
        assert (head.curr_offset, len(messages)) == (84, 3), "reading goes on"
        assert (await peer.commit()).err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert (await peer.offsets(all_groups=True)).groups[0].confirmed_offset == 0, "but nothing is told as durable"
        disk.capacity_bytes = None
        assert (await peer.send(b"again")).append_offset == 280, "refused messages have left no gap"
        assert (await peer.commit()).curr_offset == 168
        assert broker.health()["status"] == "ok"
    async with running(disk) as again, connected(again) as peer:
        assert (await peer.register()).curr_offset == 168
        assert len((await peer.read_range(0))[1]) == 11


async def test_a_position_whose_write_failed_is_written_when_there_is_space() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item() for _ in range(10)])
        await peer.register()
        await peer.get(max_messages=3)
        disk.capacity_bytes = 0
        assert (await peer.get(last_pack_consumed=True))[0].success
        disk.capacity_bytes = None
        await peer.send()
        positions = broker._state.positions if broker._state else None
        assert positions is not None
        await until(lambda: not positions.unwritten and not positions._writes)
        assert (await peer.offsets(all_groups=True)).groups[0].confirmed_offset == 84


async def test_the_broker_is_well_again_when_there_is_space_though_nobody_sends() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        disk.capacity_bytes = 0
        assert (await peer.send()).err_code == Code.SERVER_RECEIVE_OVERFLOW
        disk.capacity_bytes = None
        await until(lambda: broker.health()["status"] == "ok")


async def test_a_fetch_answered_too_late_books_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item() for _ in range(4)])
        await applied(broker)
        await peer.register()
        store, state = broker._store, broker._state
        assert store is not None
        assert state is not None
        go, read = threading.Event(), store.read

        def held(*args: Any, **options: Any) -> Any:
            assert go.wait(30)
            return read(*args, **options)

        monkeypatch.setattr(store, "read", held)
        request = GetMessageRequestC2B(
            client_id=peer.client_id, partition_id=0, group_name="g", topic_name="demo", manual_commit_offset=True
        )
        with pytest.raises(RequestTimeoutError):
            await peer.connection.call(17, 2, encode(request), timeout_s=0.05)
        go.set()
        await until(lambda: state.pending_reads == 0)
        head, messages = await peer.get(manual_commit_offset=True)
        assert (head.curr_offset, len(messages)) == (0, 4), "the messages of the late answer are not skipped"


async def test_a_failed_flush_stops_writing_for_good_and_shows() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send(b"kept")
        disk.fail(Operation.FDATASYNC, path_contains="journal", times=1)
        assert (await peer.send()).err_code == Code.SERVICE_UNAVAILABLE
        again = await peer.send()
        assert again.err_code == Code.SERVICE_UNAVAILABLE
        assert "restart" in again.err_msg
        assert broker.health()["status"] == "failed"
        assert [message.payload for message in (await peer.read_range(0))[1]] == [b"kept"]


async def test_a_failure_of_the_applier_shows_and_reading_from_memory_goes_on() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        disk.fail(Operation.WRITE, path_contains="/logs/")
        await peer.send(b"kept")
        apply_now(broker)
        await until(lambda: broker.health()["status"] == "failed")
        assert any("partition logs" in problem for problem in broker.health()["problems"])
        assert [message.payload for message in (await peer.read_range(0))[1]] == [b"kept"]
        disk.heal()


async def test_a_disk_that_fails_in_the_background_is_told_once_and_as_what_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        disk.fail(Operation.WRITE, path_contains="/logs/")
        await peer.send(b"kept")
        apply_now(broker)
        await until(lambda: broker.health()["status"] == "failed")
        for _ in range(50):
            refused = await peer.send()
            assert refused.err_code == Code.SERVICE_UNAVAILABLE
            assert "Input/output error" in refused.err_msg
        problems = broker.health()["problems"]
        assert not any("fault of this program" in problem for problem in problems)
        assert any("Input/output error" in problem for problem in problems)
        errors = [record for record in caplog.records if record.levelname == "ERROR"]
        assert len(errors) <= 3
        assert not any(record.exc_info for record in errors), "it is the disk's, and named; no traceback helps"
        disk.heal()


async def test_a_disk_with_less_than_the_reserve_shows_from_the_start_and_names_the_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FaultyDisk(capacity_bytes=64 * MIB)
    async with running(disk, store=StoreSettings()) as broker, connected(broker) as peer:
        wanted = "63 MiB are free, and `broker.reserve_bytes` keeps 192 MiB free"
        assert broker.health()["status"] == "degraded"
        assert any(wanted in problem for problem in broker.health()["problems"])
        assert wanted in caplog.text
        refused = await peer.send()
        assert refused.err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert wanted in refused.err_msg
        assert sum("disk full" in problem for problem in broker.health()["problems"]) == 1
        disk.capacity_bytes = 512 * MIB
        await until(lambda: broker.health()["status"] == "ok")
        assert (await peer.send()).success


async def test_messages_are_read_from_the_disk_as_from_memory() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n, msg_type="ab"[n % 2]) for n in range(100)])
        await applied(broker)
        assert broker._store is not None
        assert not broker._store.in_memory("demo", 0, 0)
        assert [message.payload for message in (await peer.read_range(0))[1]] == [b"%d" % n for n in range(100)]
        await peer.register(filter_cond_str=("b",))
        assert [message.payload for message in (await peer.get())[1]] == [b"%d" % n for n in range(1, 100, 2)]


async def test_a_read_that_fails_is_answered_and_shows() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send()
        await applied(broker)
        await peer.register()
        disk.fail(Operation.READ)
        assert (await peer.get())[0].err_code == Code.INTERNAL_SERVER_ERROR
        assert broker.health()["status"] == "degraded"
        disk.heal()
        assert len((await peer.get())[1]) == 1


async def test_two_brokers_on_one_directory_are_refused() -> None:
    disk = FaultyDisk()
    async with running(disk):
        with pytest.raises(DirectoryLockedError, match="broker-1"):
            await service(disk).start()


async def test_a_stop_writes_what_was_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    broker = service(disk)
    await broker.start()
    async with connected(broker) as peer:
        held = HeldWrites(broker, monkeypatch)
        sends = [asyncio.create_task(peer.send(b"%d" % n)) for n in range(5)]
        await until(lambda: held.entered == 1)
        closing = asyncio.create_task(broker.close())
        held.go.set()
        await closing
        answers = await asyncio.gather(*sends, return_exceptions=True)
    acknowledged = [answer for answer in answers if getattr(answer, "success", False)]
    async with running(disk) as again, connected(again) as peer:
        _, messages = await peer.read_range(0)
        assert len(messages) >= len(acknowledged) >= 1


async def test_real_files(tmp_path: Path) -> None:
    from pytubemq.storage.disk.disk import OsDisk

    for start in (0, 10):
        async with running(OsDisk(), data_dir=tmp_path, store=StoreSettings()) as broker, connected(broker) as peer:  # type: ignore[arg-type]
            answer = await peer.send_each([item(b"%d" % n) for n in range(10)])
            assert answer.offsets[0] == 28 * start
            assert len((await peer.read_range(28 * start))[1]) == 10
    assert (tmp_path / "broker-1" / "journal").is_dir()


async def _begun() -> FaultyDisk:
    """A disk on which a Broker has run: the next one makes a journal file with the first thing that it writes."""
    disk = FaultyDisk()
    async with running(disk):
        pass
    return disk


async def test_sends_are_refused_while_no_file_can_be_opened_and_taken_afterwards() -> None:
    disk = await _begun()
    async with running(disk) as broker, connected(broker) as peer:
        disk.fail(Operation.OPEN, errno.EMFILE)
        for _ in range(2):
            refused = await peer.send(b"no")
            assert refused.err_code == Code.SERVICE_UNAVAILABLE
            assert "Too many open files" in refused.err_msg
            assert "restart" not in refused.err_msg
        assert broker.health()["status"] == "degraded"
        assert any("Too many open files" in problem for problem in broker.health()["problems"])
        disk.heal()
        assert (await peer.send(b"yes")).append_offset == 0
        assert broker.health()["status"] == "ok"
        disk.fail(Operation.OPEN, errno.EMFILE)
        apply_now(broker)
        await until(lambda: any("partition logs" in problem for problem in broker.health()["problems"]))
        assert [message.payload for message in (await peer.read_range(0))[1]] == [b"yes"]
        disk.heal()
        await applied(broker)
        await until(lambda: broker.health()["status"] == "ok")


async def test_a_read_that_cannot_open_its_file_is_refused_for_now() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send(b"kept")
    async with running(disk) as broker, connected(broker) as peer:
        await peer.register()
        disk.fail(Operation.OPEN, errno.ENFILE, path_contains="/logs/")
        assert (await peer.get())[0].err_code == Code.SERVICE_UNAVAILABLE
        disk.heal()
        assert len((await peer.get())[1]) == 1
        assert broker.health()["status"] == "ok"


async def test_no_file_to_write_is_over_though_nobody_sends() -> None:
    disk = await _begun()
    async with running(disk) as broker, connected(broker) as peer:
        disk.fail(Operation.OPEN, errno.EMFILE, path_contains="journal", times=1)
        assert (await peer.send()).err_code == Code.SERVICE_UNAVAILABLE
        await until(lambda: broker.health()["status"] == "ok")


@pytest.mark.parametrize("spare", [0, 1], ids=["no handle", "one handle, too few for a new journal file"])
async def test_health_stays_bad_between_refused_sends_while_no_file_can_be_opened(
    spare: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(periodic_checks, "PERIOD_S", 0.01)
    disk = await _begun()
    async with running(disk) as broker, connected(broker) as peer:
        disk.fail(Operation.FSYNC_DIR if spare else Operation.OPEN, errno.EMFILE, path_contains="journal")
        seen: set[object] = set()
        for _ in range(3):
            assert (await peer.send(b"no")).err_code == Code.SERVICE_UNAVAILABLE
            probed = disk.calls[Operation.OPEN] + 3
            while disk.calls[Operation.OPEN] < probed and seen <= {"degraded"}:
                seen.add(broker.health()["status"])
                await asyncio.sleep(0)
        assert seen == {"degraded"}
        assert sum("sends are refused" in record.message for record in caplog.records) == 1
        disk.heal()
        await until(lambda: broker.health()["status"] == "ok")
        assert not any(path.name == PROBE_NAME for path in disk.files())
        assert (await peer.send(b"yes")).append_offset == 0


@pytest.mark.parametrize("quota", [False, True], ids=["free space too small", "free space that is not to be had"])
async def test_health_stays_bad_while_what_is_free_does_not_hold_what_was_refused(
    quota: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(periodic_checks, "PERIOD_S", 0.01)
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        if quota:
            disk.fail(Operation.WRITE, errno.EDQUOT, path_contains="journal")
        else:
            disk.capacity_bytes = MIB
        seen: set[object] = set()
        for _ in range(3):
            assert (await peer.send(bytes(MIB // 2 + 1))).err_code == Code.SERVER_RECEIVE_OVERFLOW
            probed = disk.calls[Operation.FREE_BYTES] + 3
            while disk.calls[Operation.FREE_BYTES] < probed and seen <= {"degraded"}:
                seen.add(broker.health()["status"])
                await asyncio.sleep(0)
        assert seen == {"degraded"}
        assert sum("the disk is full" in record.message for record in caplog.records) == 1
        disk.heal()
        disk.capacity_bytes = None
        await until(lambda: broker.health()["status"] == "ok")
        assert not any(path.name == PROBE_NAME for path in disk.files())


async def test_what_was_promised_from_memory_before_the_disk_was_full_is_written_when_there_is_space() -> None:
    disk = FaultyDisk()
    async with (
        running(disk, store=FROM_MEMORY) as broker,
        connected(broker) as peer,
    ):
        await peer.send(b"0")
        await until(lambda: broker.health()["writes"] == 1)
        disk.capacity_bytes = 0
        assert (await peer.send(b"1")).append_offset == 28, "promised from memory"
        await until(lambda: broker.health()["failed_writes"] == 1)
        refused = await peer.send(b"2")
        assert refused.err_code == Code.SERVER_RECEIVE_OVERFLOW, "no more until that is written"
        assert [message.payload for message in (await peer.read_range(0))[1]] == [b"0", b"1"]
        writes = broker.health()["writes"]
        disk.capacity_bytes = None
        await until(lambda: broker.health()["writes"] > writes)
        disk.kill()  # nobody sent anything, and yet it lies in the journal
    async with (
        running(disk, store=FROM_MEMORY) as again,
        connected(again) as peer,
    ):
        assert [message.payload for message in (await peer.read_range(0))[1]] == [b"0", b"1"]
        assert (await peer.send(b"3")).append_offset == 56


async def test_of_sends_that_wait_together_only_those_are_dropped_whose_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as broker, connected(broker) as peer:
        held = HeldWrites(broker, monkeypatch)
        first = asyncio.create_task(peer.send(b"first"))
        await until(lambda: held.entered == 1)
        template = hot.SendTemplate(peer.client_id, "demo", 1)
        short = asyncio.ensure_future(
            peer.connection.call(Method.SEND_MESSAGE_P2B, 3, template.encode(0, b"short", 0), timeout_s=0.05)
        )
        long = asyncio.create_task(peer.send(b"long"))
        with pytest.raises(RequestTimeoutError):
            await short
        held.go.set()
        assert ((await first).append_offset, (await long).append_offset) == (0, 28)
        assert broker.health()["expired"] == 1
        assert broker.health()["staged_bytes"] == 0
        assert [message.payload for message in (await peer.read_range(0))[1]] == [b"first", b"long"]
