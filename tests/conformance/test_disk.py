"""What every `Disk` must do: the operating system's and the one that tests put in its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import DirectoryLockedError
from pytubemq.storage.disk.disk import MAX_BUFFERS, Disk, OsDisk, read_exactly, write_all
from pytubemq.testing.disk import FaultyDisk

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["os", "faulty", "faulty-short-writes"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    disk: Disk = OsDisk() if request.param == "os" else FaultyDisk(short_writes=request.param.endswith("short-writes"))
    root = tmp_path if request.param == "os" else Path("/data")
    disk.makedirs(root)
    return disk, root


def test_what_is_written_is_read_back(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "a", create=True)
    assert file.size() == 0
    assert write_all(file, [b"hello ", b"", b"world"], 0) == 11
    assert write_all(file, [b"W"], 6) == 7
    assert (file.size(), file.pread(100, 0), file.pread(3, 6)) == (11, b"hello World", b"Wor")
    file.fdatasync()
    file.close()
    file.close()
    again = disk.open(root / "a")
    assert read_exactly(again, 100, 0) == b"hello World"
    again.close()


def test_reading_at_or_beyond_the_end_gives_nothing(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "a", create=True)
    write_all(file, [b"abc"], 0)
    assert (file.pread(5, 3), file.pread(5, 99)) == (b"", b"")
    file.close()


def test_writing_beyond_the_end_leaves_zeros(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "a", create=True)
    write_all(file, [b"x"], 4)
    assert file.pread(10, 0) == b"\0\0\0\0x"
    file.close()


def test_more_buffers_than_one_call_takes(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "a", create=True)
    buffers = [bytes([number % 251]) * (number % 3) for number in range(2 * MAX_BUFFERS + 5)]
    assert write_all(file, buffers, 7) == 7 + len(b"".join(buffers))
    assert file.pread(1 << 20, 7) == b"".join(buffers)
    file.close()


def test_truncate_cuts_and_extends(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "a", create=True)
    write_all(file, [b"abcdef"], 0)
    file.truncate(2)
    assert file.pread(10, 0) == b"ab"
    file.truncate(4)
    assert file.pread(10, 0) == b"ab\0\0"
    file.close()


def test_opening_what_is_not_there_fails_unless_created(place: tuple[Disk, Path]) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(root / "a")
    with pytest.raises(FileNotFoundError):
        disk.open(root / "no such directory" / "a", create=True)


def test_opening_again_with_create_keeps_the_content(place: tuple[Disk, Path]) -> None:
    disk, root = place
    first = disk.open(root / "a", create=True)
    write_all(first, [b"abc"], 0)
    second = disk.open(root / "a", create=True)
    assert second.pread(3, 0) == b"abc"
    first.close()
    second.close()


def test_directories_and_names(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.makedirs(root / "x" / "y")
    disk.makedirs(root / "x" / "y")
    disk.open(root / "x" / "b", create=True).close()
    assert sorted(disk.listdir(root / "x")) == ["b", "y"]
    assert disk.exists(root / "x" / "b")
    assert disk.exists(root / "x")
    disk.fsync_dir(root / "x")
    disk.unlink(root / "x" / "b")
    assert not disk.exists(root / "x" / "b")
    with pytest.raises(FileNotFoundError):
        disk.unlink(root / "x" / "b")
    with pytest.raises(FileNotFoundError):
        disk.listdir(root / "nothing")
    with pytest.raises(FileNotFoundError):
        disk.fsync_dir(root / "nothing")


def test_a_file_is_no_directory(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.open(root / "a", create=True).close()
    with pytest.raises(FileExistsError):
        disk.makedirs(root / "a")
    with pytest.raises(NotADirectoryError):
        disk.listdir(root / "a")


def test_rename_replaces_its_target(place: tuple[Disk, Path]) -> None:
    disk, root = place
    for name in ("old", "new"):
        file = disk.open(root / name, create=True)
        write_all(file, [name.encode()], 0)
        file.close()
    disk.rename(root / "new", root / "old")
    assert disk.listdir(root) == ["old"]
    file = disk.open(root / "old")
    assert file.pread(9, 0) == b"new"
    file.close()


def test_free_space_is_told(place: tuple[Disk, Path]) -> None:
    disk, root = place
    assert disk.free_bytes(root) > 0


def test_a_lock_is_held_once_and_may_be_given_up(place: tuple[Disk, Path]) -> None:
    disk, root = place
    held = disk.lock(root / "lock")
    with pytest.raises(DirectoryLockedError) as raised:
        disk.lock(root / "lock")
    assert str(root) in raised.value.message
    assert raised.value.hint
    held.release()
    held.release()
    disk.lock(root / "lock").release()


def test_all_is_flushed_at_once_for_who_holds_the_lock(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.makedirs(root / "x")
    files = [disk.open(root / "x" / f"{number}", create=True) for number in range(20)]
    for number, file in enumerate(files):
        write_all(file, [b"%d" % number], 0)
    assert not disk.sync_all(root), "nobody holds a lock here"
    held = disk.lock(root / "lock")
    done = disk.sync_all(root)  # some systems cannot: then each file is flushed by itself
    if isinstance(disk, FaultyDisk):
        assert done
        disk.crash()
    held.release()
    assert not disk.sync_all(root)
    for number, file in enumerate(files):
        file.close()
        again = disk.open(root / "x" / f"{number}")
        assert read_exactly(again, 9, 0) == b"%d" % number
        again.close()


def test_a_closed_file_cannot_be_used(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "a", create=True)
    file.close()
    uses: list[Callable[[], object]] = [
        lambda: file.pread(1, 0),
        lambda: file.pwritev([b"x"], 0),
        file.fdatasync,
        file.size,
    ]
    for use in uses:
        with pytest.raises(OSError, match="Bad file descriptor"):
            use()


def test_an_empty_directory_is_removed_and_a_full_one_is_not(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.makedirs(root / "a" / "b")
    disk.open(root / "a" / "b" / "file", create=True).close()
    with pytest.raises(OSError, match="not empty"):
        disk.rmdir(root / "a" / "b")
    disk.unlink(root / "a" / "b" / "file")
    disk.rmdir(root / "a" / "b")
    assert disk.listdir(root / "a") == []
    with pytest.raises(FileNotFoundError):
        disk.rmdir(root / "a" / "b")
