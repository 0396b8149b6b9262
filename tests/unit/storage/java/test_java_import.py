"""A Java Broker's directory becomes a store: every message, in order, and every group where it stood."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import BadRequestError, DirectoryLockedError
from pytubemq.storage.java.java_import import import_java
from pytubemq.storage.java.layout import find_stores
from pytubemq.storage.java.log import HEAD_BYTES, JavaRecord, read_records
from pytubemq.storage.journal.staging import Appended
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.storage.tools.read.read_only_store import open_read_only
from pytubemq.storage.tools.read.records import Skipped, messages_of, raw_records
from pytubemq.storage.tools.verify import verify
from tests.unit.storage.tools.making import LARGE, SMALL, fill, held_in

if TYPE_CHECKING:
    from pytubemq.wire.batch.stored import StoredMessage

RECORDED = Path(__file__).parents[3] / "vectors" / "java-store"
EXPECTED = json.loads((RECORDED / "expected.json").read_text())


def messages(root: Path, topic: str, partition_id: int) -> list[StoredMessage]:
    with open_read_only(root, check=True) as store:
        records = raw_records(store, topic, partition_id, *store.ends(topic, partition_id))
        return [message for record in records if not isinstance(record, Skipped) for message in messages_of(record)]


def by_partition() -> dict[tuple[str, int], list[JavaRecord]]:
    found: dict[tuple[str, int], list[JavaRecord]] = {}
    for store in find_stores(RECORDED):
        for record in read_records(store):
            assert isinstance(record, JavaRecord)
            found.setdefault((store.topic, record.partition_id), []).append(record)
    return found


def test_every_message_is_there_in_order_with_all_that_was_said_of_it(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    told = import_java(root, RECORDED)
    assert told.messages == sum(len(store["records"]) for store in EXPECTED.values())
    assert told.bad == []
    for (topic, partition_id), records in by_partition().items():
        found = messages(root, topic, partition_id)
        assert [(one.message_id, one.payload, one.flag, one.append_time) for one in found] == [
            (one.message_id, one.payload, one.flag, one.receive_time_ms) for one in records
        ]
        assert [one.offset for one in found] == [28 * at for at in range(len(records))]
    assert verify(root).findings == []


def test_filter_codes_are_kept(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    import_java(root, RECORDED, topics=["filt"])
    wanted = {record["key_code"] for record in EXPECTED["filt-0"]["records"]}
    with open_read_only(root) as store:
        for code in wanted:
            piece = store.read("filt", 0, 0, max_bytes=1 << 20, max_messages=100, codes=frozenset({code}))
            assert piece.count == sum(record["key_code"] == code for record in EXPECTED["filt-0"]["records"])


def test_groups_stand_before_the_message_before_which_they_stood(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    told = import_java(root, RECORDED)
    records = by_partition()
    assert told.positions
    with open_read_only(root) as store:
        for place in told.positions:
            own = records.get((place.topic, place.partition_id), [])
            before = sum(record.index_offset < place.java_offset for record in own)
            assert store.confirmed(place.group, place.topic, place.partition_id) == 28 * before


def test_a_topic_is_imported_once_and_others_may_follow(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    import_java(root, RECORDED, topics=["filt"])
    before = held_in(root)
    with pytest.raises(BadRequestError, match="filt already"):
        import_java(root, RECORDED)
    assert held_in(root) == before
    import_java(root, RECORDED, topics=["demo", "multi"])
    assert len(held_in(root)) == 23
    assert verify(root).is_sound


@pytest.mark.parametrize("settings", [SMALL, LARGE], ids=["short files", "padding"])
@pytest.mark.parametrize("close", [False, True])
def test_a_store_with_other_topics_keeps_them(tmp_path: Path, settings: StoreSettings, *, close: bool) -> None:
    shutil.copytree(RECORDED, tmp_path / "java")
    shutil.move(tmp_path / "java/demo-0", tmp_path / "java/other-0")
    root = tmp_path / "broker-1"
    held = fill(root, settings=settings, close=close)
    import_java(root, tmp_path / "java")
    found = held_in(root)
    assert held.items() <= found.items()
    assert len(found) == len(held) + 23
    assert verify(root).findings == []


def test_the_store_goes_on_behind_what_was_imported(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    import_java(root, RECORDED, topics=["filt"])
    store = BrokerStore.open(root, settings=LARGE)
    staging = store.staging()
    staging.append("filt", 0, b"new", 0, -1)
    last = by_partition()["filt", 0][-1]
    prepared = store.prepare(staging, last.receive_time_ms - 1000)
    store.write(prepared)
    [made] = store.publish(prepared)
    assert isinstance(made, Appended)
    store.close()
    assert (made.offset, made.message_id > last.message_id) == (84, True)
    assert made.append_time_ms == last.receive_time_ms


def test_damage_and_torn_ends_are_named_and_the_rest_is_taken(tmp_path: Path) -> None:
    java = Path(shutil.copytree(RECORDED, tmp_path / "java"))
    path = java / "demo-0" / f"{0:020d}.tube"
    data = bytearray(path.read_bytes())
    data[HEAD_BYTES] ^= 1
    path.write_bytes(data[:-5])
    root = tmp_path / "broker-1"
    told = import_java(root, java, topics=["demo"])
    assert [(bad.path, bad.position, "torn" in bad.what) for bad in told.bad] == [
        (path, 0, False),
        (path, bad_end(bytes(data)), True),
    ]
    assert told.messages == len(EXPECTED["demo-0"]["records"]) - 2


def bad_end(data: bytes) -> int:
    """Where the last record begins."""
    at = last = 0
    while at < len(data):
        last, at = at, at + 4 + int.from_bytes(data[at : at + 4], "big")
    return last


def test_nothing_counts_until_all_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "broker-1"
    held = fill(root)

    def fails(*_: object) -> None:
        raise OSError("power went")

    monkeypatch.setattr("pytubemq.storage.java.java_import.put_checkpoint", fails)
    java = Path(shutil.copytree(RECORDED, tmp_path / "java"))
    shutil.move(java / "demo-0", java / "other-0")
    with pytest.raises(OSError, match="power went"):
        import_java(root, java)
    assert held_in(root) == held
    monkeypatch.undo()
    assert import_java(root, java).messages == 23


def test_a_store_in_use_and_a_directory_without_data_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    with pytest.raises(BadRequestError, match="no data of a topic"):
        import_java(root, tmp_path)
    assert not root.exists()
    store = BrokerStore.open(root, settings=StoreSettings())
    try:
        with pytest.raises(DirectoryLockedError):
            import_java(root, RECORDED)
    finally:
        store.close()
