"""A damaged checkpoint gives the positions whose records make sense."""

from __future__ import annotations

from pytubemq.storage.format.checkpoint import NAME, Checkpoint, write_checkpoint
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.record import LogEnd
from pytubemq.storage.tools.read.recovered_parts import recover_checkpoint_parts
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import ROOT


def test_damaged_numbers_before_the_records_are_not_taken_for_a_record() -> None:
    positions = {("g1", "d", 0): 28, ("g2", "d", 0): 56}
    disk = FaultyDisk()
    disk.makedirs(ROOT)
    write_checkpoint(disk, ROOT, Checkpoint(confirmed=positions))
    data = bytearray(disk.content(ROOT / NAME))
    # The last number looks like the beginning of a loss of the topic `demo`, and what follows like the rest of it.
    data[HEADER_BYTES + 24 : HEADER_BYTES + 32] = b"\x06\x04\x00\x00demo"
    ends = {("d", 0): LogEnd(10, 1000), ("demo", 0): LogEnd(10, 1000)}
    assert recover_checkpoint_parts(bytes(data), ends).confirmed == positions
