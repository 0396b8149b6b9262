"""One partition whose files cannot be read, or were damaged while the Broker was stopped, and all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import Code
from pytubemq.testing.disk import FaultyDisk, Operation
from pytubemq.wire.batch.record_batch import encode_columns
from pytubemq.wire.batch.send_batches import decode_send_packs_response, encode_send_packs
from tests.scenario.broker.support import Peer, connected, item, running

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.wire.batch.send_batches import SendPacksResponse

pytestmark = pytest.mark.anyio


async def filled() -> FaultyDisk:
    """The disk of a Broker that was stopped with five messages in each of three partitions."""
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n, n % 3) for n in range(15)])
    return disk


async def send_packs(peer: Peer, *partition_ids: int) -> SendPacksResponse:
    columns = encode_columns([b"a", b"b"], 0, -1)
    body = encode_send_packs(peer.client_id, "demo", 1, [(number, columns, None) for number in partition_ids])
    return decode_send_packs_response((await peer.connection.call(103, 3, b"".join(body), timeout_s=20)).body)


def log_files(disk: FaultyDisk, partition_id: int) -> list[Path]:
    return [path for path in disk.files() if f"/logs/demo/{partition_id}/" in str(path)]


async def test_a_partition_that_cannot_be_read_troubles_no_other() -> None:
    disk = await filled()
    async with running(disk) as broker, connected(broker) as peer:
        disk.fail(Operation.READ, path_contains="logs/demo/0/")
        await peer.register(0)
        await peer.register(1)
        for _ in range(2):
            head, _ = await peer.get(0)
            assert head.err_code == Code.INTERNAL_SERVER_ERROR
            assert "partition 0 of demo" in (head.err_msg or "")
        range_head, _ = await peer.read_range(0, 0)
        assert range_head.err_code == Code.INTERNAL_SERVER_ERROR
        assert len((await peer.get(1))[1]) == 5
        assert (await peer.send(b"more", 0)).append_offset == 140, "what is new is taken"
        health = broker.health()
        assert health["status"] == "degraded"
        assert sum("partition 0 of demo" in problem for problem in health["problems"]) == 1
        disk.heal()
        assert [message.payload for message in (await peer.get(0))[1]][:5] == [b"0", b"3", b"6", b"9", b"12"]
        assert broker.health()["status"] == "ok"


@pytest.mark.parametrize("damage", ["a head is damaged", "an index is too short"])
async def test_a_partition_with_a_damaged_head_or_a_short_index_is_served_whole(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = await filled()
    path = min(log_files(disk, 1))
    if damage == "a head is damaged":
        disk.flip_bit(path, 20)
    else:
        disk.put(path, disk.content(path)[:70])
    async with running(disk) as broker, connected(broker) as peer:
        await peer.register(1)
        assert [message.payload for message in (await peer.get(1))[1]] == [b"1", b"4", b"7", b"10", b"13"]
        assert (await peer.send(b"x", 1)).append_offset == 5 * 28
        assert any(f"partition demo:1: {path} is damaged" in problem for problem in broker.health()["problems"])
        assert broker.health()["status"] == "degraded"
    assert not any(record.exc_info for record in caplog.records)


async def test_a_partition_of_which_a_file_is_gone_is_refused_alone(caplog: pytest.LogCaptureFixture) -> None:
    disk = await filled()
    disk.unlink(next(path for path in log_files(disk, 1) if path.suffix == ".log"))
    async with running(disk) as broker, connected(broker) as peer:
        for number in (0, 1, 2):
            assert (await peer.register(number)).success
        head, _ = await peer.get(1)
        assert head.err_code == Code.INTERNAL_SERVER_ERROR
        assert "partition 1 of " in (head.err_msg or "")
        single = await peer.send(b"x", 1)
        assert (single.success, single.err_code) == (False, Code.INTERNAL_SERVER_ERROR)
        assert "partition 1 of " in single.err_msg
        batch = await peer.send_each([item(b"a", 0), item(b"b", 1), item(b"", 2), item(b"c", 1), item(b"d", 2)])
        assert list(batch.err_codes) == [200, 500, 400, 500, 200]
        packs = await send_packs(peer, 0, 1, 2)
        assert [[(span.messages, span.code) for span in spans] for spans in packs.results] == [
            [(2, 200)],
            [(2, 500)],
            [(2, 200)],
        ]
        for number in (0, 2):
            assert (await peer.send(b"y", number)).success
            assert len((await peer.read_range(0, number))[1]) >= 5
        assert any("partition 1" in problem or "demo:1" in problem for problem in broker.health()["problems"])
        assert broker.health()["status"] == "degraded"
    assert not any(record.exc_info for record in caplog.records), "what is known to go wrong needs no traceback"
