"""The file of used signatures: what is found at the next start, and what is never overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.storage.metastore.used_signatures import UsedSignatures

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000


def digest(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_what_still_counts_is_found_though_nothing_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "used"
    used = UsedSignatures(path, most=10, now_ms=NOW)
    assert used.found == []
    for number in range(4):
        used.record(NOW + number, digest(number))
    again = UsedSignatures(path, most=10, now_ms=NOW + 1)
    assert again.found == [(NOW + 2, digest(2)), (NOW + 3, digest(3))]
    again.record(NOW + 9, digest(9))
    third = UsedSignatures(path, most=10, now_ms=NOW + 2)
    assert third.found == [(NOW + 3, digest(3)), (NOW + 9, digest(9))]
    third.close()
    third.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["used"]


def test_the_oldest_make_room_and_the_size_stays(tmp_path: Path) -> None:
    path = tmp_path / "used"
    used = UsedSignatures(path, most=5, now_ms=NOW)
    size = path.stat().st_size
    for number in range(1, 13):
        used.record(NOW + number, digest(number))
    assert path.stat().st_size == size
    again = UsedSignatures(path, most=5, now_ms=NOW)
    assert [number for number, _ in again.found] == [NOW + number for number in range(8, 13)]
    again.record(NOW + 13, digest(13))
    assert [number for number, _ in UsedSignatures(path, most=5, now_ms=NOW).found] == [
        NOW + number for number in range(9, 14)
    ]


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 4_001])
def test_a_damaged_file_hinders_no_start(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "used"
    path.write_bytes(damage)
    used = UsedSignatures(path, most=5, now_ms=NOW)
    assert len(used.found) <= 5
    used.record(2**63, digest(1))
    assert (2**63, digest(1)) in UsedSignatures(path, most=5, now_ms=NOW).found
