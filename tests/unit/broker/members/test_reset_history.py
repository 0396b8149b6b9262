"""The history of resets: bounded, whole, and no reason to stop."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import msgspec
import pytest

from pytubemq.broker.members import reset_history
from pytubemq.broker.members.reset_history import Reset, ResetHistory
from pytubemq.errors import NewerVersionError
from pytubemq.storage.disk.disk import write_all
from pytubemq.storage.disk.sealed_file import seal, unseal
from pytubemq.testing.disk import FaultyDisk, Operation

pytestmark = pytest.mark.anyio

ROOT = Path("/data/broker-1")
FILE = ROOT / "resets.jsonl"


def reset(number: int, group: str = "g", host: str = "") -> Reset:
    return Reset(
        time_ms=1000 + number, user="ann", group=group, topic="demo", partition_id=0, asked="earliest",
        new_offset=0, old_offset=28 * number or None, host=host,
    )  # fmt: skip


def disk_with(data: bytes | None = None) -> FaultyDisk:
    disk = FaultyDisk()
    disk.makedirs(ROOT)
    if data is not None:
        file = disk.open(FILE, create=True)
        write_all(file, [data], 0)
        file.close()
    return disk


async def test_what_was_added_is_there_after_a_crash_newest_first() -> None:
    disk = disk_with()
    history = ResetHistory.open(disk, ROOT)
    assert history.newest() == []
    await history.add([reset(0), reset(1, "other")])
    await history.add([reset(2)])
    disk.crash()
    again = ResetHistory.open(disk, ROOT)
    assert again.newest() == [reset(2), reset(1, "other"), reset(0)]
    assert again.newest(group="g", most=1) == [reset(2)]
    assert again.newest(group="nobody") == []


async def test_only_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset_history, "MAX_RESET_RECORDS", 3)
    disk = disk_with()
    history = ResetHistory.open(disk, ROOT)
    await history.add(map(reset, range(5)))
    assert ResetHistory.open(disk, ROOT).newest() == [reset(4), reset(3), reset(2)]


async def test_a_full_disk_is_told_and_the_next_write_brings_all() -> None:
    disk = disk_with()
    history = ResetHistory.open(disk, ROOT)
    await history.add([reset(0)])
    disk.fail(Operation.FDATASYNC, errno.ENOSPC, times=1)
    await history.add([reset(1)])
    problem = history.problem
    assert problem == "the history of resets cannot be written: No space left on device"
    assert ResetHistory.open(disk, ROOT).newest() == [reset(0)], "what was there is intact"
    await history.add([reset(2)])
    assert history.problem is None
    assert ResetHistory.open(disk, ROOT).newest() == [reset(2), reset(1), reset(0)]


def test_a_file_of_a_newer_version_is_refused_and_named() -> None:
    with pytest.raises(NewerVersionError, match=r"resets\.jsonl"):
        ResetHistory.open(disk_with(seal(b'{"version":3}\n{')), ROOT)


@pytest.mark.parametrize("data", [b"", b'{"version":1}\n{"time_ms":', b'{"version":1}\n{"user":"\xff"}', b"\xff\xfe"])
async def test_a_damaged_file_is_set_aside_told_and_a_new_one_begun(data: bytes) -> None:
    disk = disk_with(data)
    history = ResetHistory.open(disk, ROOT)
    assert history.newest() == []
    assert history.loss is not None
    assert "resets.jsonl.damaged" in history.loss
    kept = disk.open(ROOT / "resets.jsonl.damaged")
    assert kept.pread(kept.size(), 0) == data
    kept.close()
    await history.add([reset(1)])
    again = ResetHistory.open(disk, ROOT)
    assert again.newest() == [reset(1)]
    assert again.loss is None


async def test_any_flipped_bit_is_named_and_changes_nothing_in_silence() -> None:
    disk = disk_with()
    await ResetHistory.open(disk, ROOT).add([reset(0), reset(1)])
    whole = disk.content(FILE)
    for position in range(len(whole)):
        for bit in range(8):
            disk = disk_with(whole)
            disk.flip_bit(FILE, position, bit)
            history = ResetHistory.open(disk, ROOT)
            assert history.newest() == [], (position, bit)
            assert history.loss is not None
            assert str(FILE) in history.loss


async def test_a_file_of_before_the_check_is_read_and_the_next_one_has_it() -> None:
    disk = disk_with(b'{"version":1}\n' + msgspec.json.Encoder().encode_lines([reset(0)]))
    history = ResetHistory.open(disk, ROOT)
    assert history.newest() == [reset(0)]
    await history.add([reset(1)])
    assert unseal(disk.content(FILE)) is not None
    assert ResetHistory.open(disk, ROOT).newest() == [reset(1), reset(0)]


async def test_one_write_takes_all_that_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_with()
    history = ResetHistory.open(disk, ROOT)
    writes: list[int] = []
    write = history._write

    def counting(lines: list[msgspec.Struct]) -> None:
        writes.append(len(lines))
        write(lines)

    monkeypatch.setattr(history, "_write", counting)
    await asyncio.gather(*(history.add([reset(number)]) for number in range(100)))
    assert len(writes) <= 2, "the first may have begun before the others came"
    assert len(ResetHistory.open(disk, ROOT).newest()) == 100


async def test_a_flood_of_resets_pushes_out_none_of_other_groups_or_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset_history, "MAX_RESET_RECORDS", 8)
    disk = disk_with()
    history = ResetHistory.open(disk, ROOT)
    mine = [reset(0, "mine", "a"), reset(1, "mine", "a")]
    other = reset(2, "other", "b")
    await history.add([*mine, other])
    await history.add([reset(number, "flood", "b") for number in range(3, 50)])
    assert set(history.newest()) >= {*mine, other}
    await history.add([reset(number, f"made-up-{number}", "c") for number in range(50, 100)])
    kept = ResetHistory.open(disk, ROOT)
    assert set(kept.newest()) >= {*mine, other}
    assert kept.newest()[0] == reset(99, "made-up-99", "c")
    assert len(kept.newest()) == 8
