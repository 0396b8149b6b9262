"""Damaged records of a log, looked for in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.tools.read.files import find_journals, find_partitions
from pytubemq.storage.tools.read.store_access import ReadingDisk
from pytubemq.storage.tools.repair_steps.record_restore import find_copies
from tests.unit.storage.tools.making import fill

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk.disk import OsFile


class WatchedDisk(ReadingDisk):
    """A disk that knows which journal files were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.journals: list[str] = []

    def open(self, path: Path | str, *, create: bool = False) -> OsFile:
        if str(path).endswith(".journal"):
            self.journals.append(str(path))
        return super().open(path, create=create)


def test_no_journal_file_is_read_once_everything_is_found(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    fill(root, close=False)
    disk = WatchedDisk()
    holder, *others = find_journals(disk, root)
    assert others
    partitions = find_partitions(disk, root)
    last = partitions[0].segments[-1]
    assert last.log is not None
    data = bytearray(last.log.path.read_bytes())
    data[HEADER_BYTES + 10] ^= 1
    last.log.path.write_bytes(data)
    disk.journals.clear()
    # The last file is read first, and has the record.
    found = [entry.first_ordinal for _, _, entry, _ in find_copies(disk, [*others, holder], partitions, None)]
    assert found == [last.base_ordinal]
    assert disk.journals == [str(holder.path)]
