"""A Java Broker's directory, recorded from the real one, is read message by message."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from pytubemq.errors import FormatError
from pytubemq.storage.java.layout import find_offsets, find_stores
from pytubemq.storage.java.log import Damage, JavaRecord, read_records
from pytubemq.storage.java.offsets import OwnOffsets, read_offsets
from pytubemq.wire.batch.payload import decode_payload

RECORDED = Path(__file__).parents[3] / "vectors" / "java-store"
EXPECTED = json.loads((RECORDED / "expected.json").read_text())


def _body(expected: dict[str, object], body: bytes) -> bool:
    want = expected["body"]
    if isinstance(want, str):
        return want.encode() == body
    assert isinstance(want, dict)
    return want == {"len": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def test_every_recorded_message_is_read_in_order_and_unaltered() -> None:
    stores = find_stores(RECORDED)
    assert {f"{store.topic}-{store.store_id}" for store in stores} == set(EXPECTED)
    for store in stores:
        wanted = EXPECTED[f"{store.topic}-{store.store_id}"]["records"]
        found = list(read_records(store))
        assert len(found) == len(wanted)
        for record, want in zip(found, wanted, strict=True):
            assert isinstance(record, JavaRecord)
            body, attributes = decode_payload(record.payload, record.flag)
            assert (
                record.partition_id,
                record.index_offset,
                record.receive_time_ms,
                record.key_code,
                record.message_id,
                record.flag,
                attributes,
            ) == (
                want["partition_id"],
                want["index_offset"],
                want["receive_time_ms"],
                want["key_code"],
                want["message_id"],
                want["flag"],
                want["attributes"] or None,
            )
            assert _body(want, body)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED / "demo-0", tmp_path / "demo-0"))


def test_a_torn_end_is_told_with_its_place(copied: Path) -> None:
    file = copied / f"{0:020d}.tube"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    *records, damage = read_records(find_stores(copied.parent)[0])
    assert len(records) == 15
    assert isinstance(damage, Damage)
    assert damage.at_end
    assert damage.position + damage.size_bytes == len(whole) - 10


def test_a_damaged_record_is_passed_over_and_the_next_ones_are_read(copied: Path) -> None:
    file = copied / f"{0:020d}.tube"
    data = bytearray(file.read_bytes())
    second = 4 + int.from_bytes(data[:4], "big")
    data[second + 52] ^= 1
    file.write_bytes(data)
    found = list(read_records(find_stores(copied.parent)[0]))
    assert [type(item) for item in found] == [JavaRecord, Damage, *[JavaRecord] * 14]
    damage = found[1]
    assert isinstance(damage, Damage)
    assert damage.position == second
    assert not damage.at_end


def test_group_offsets_count_the_partition_s_own_messages() -> None:
    path = find_offsets(RECORDED)
    assert path is not None
    offsets = read_offsets(path)
    assert offsets["g_filter", "filt", 0] == 84
    records = [record for record in read_records(find_stores(RECORDED)[0]) if isinstance(record, JavaRecord)]
    own = [record.index_offset for record in records if record.partition_id == 1]
    assert own == sorted(own)
    wanted = [own[-1] + 28, 0, own[1], own[1] - 28, own[1]]
    counting = OwnOffsets(wanted)
    for index_offset in own:
        counting.passes(index_offset)
    assert counting.own(0) == 0
    assert counting.own(own[1]) == counting.own(own[1] - 28) == 28
    assert counting.own(own[-1] + 28) == 28 * len(own)


def test_a_file_that_is_no_offsets_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets.meta").write_text("{]")
    with pytest.raises(FormatError, match=r"offsets\.meta is not a file of group offsets"):
        read_offsets(tmp_path / "offsets.meta")
