"""Space that others take from the store's file system between two writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytubemq.errors import DiskFullError
from pytubemq.model.limits import MIB
from pytubemq.storage.journal.space import SpaceGuard
from pytubemq.testing.disk import FaultyDisk

ROOT = Path("/data")
KEPT = 8 * MIB


def guard(disk: FaultyDisk) -> SpaceGuard:
    disk.makedirs(ROOT)
    return SpaceGuard(disk, ROOT, reserve_bytes=KEPT)


def test_a_shortage_that_is_reported_refuses_the_next_write() -> None:
    disk = FaultyDisk(capacity_bytes=256 * MIB)
    space = guard(disk)
    space.take(1000)
    disk.capacity_bytes = KEPT
    with pytest.raises(DiskFullError):
        space.check()
    with pytest.raises(DiskFullError):
        space.take(1000)
    disk.capacity_bytes = 256 * MIB
    space.check()
    space.take(1000)


def test_the_reserve_is_not_claimed_by_a_budget_from_before() -> None:
    disk = FaultyDisk(capacity_bytes=256 * MIB)
    space = guard(disk)
    space.take(1000)
    disk.capacity_bytes = KEPT + MIB
    space.check()
    for _ in range(8):
        space.take(64_000)
        disk.capacity_bytes -= 128_000
    with pytest.raises(DiskFullError):
        space.take(64_000)


def test_the_file_system_is_asked_once_for_many_writes() -> None:
    disk = FaultyDisk(capacity_bytes=256 * MIB)
    space = guard(disk)
    asked = 0
    count = disk.free_bytes

    def counted(path: Path) -> int:
        nonlocal asked
        asked += 1
        return count(path)

    disk.free_bytes = counted  # type: ignore[method-assign]
    for _ in range(1000):
        space.take(1000)
    assert asked == 1
