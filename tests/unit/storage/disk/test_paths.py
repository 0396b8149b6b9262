"""No name makes the store leave its folder."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import MessageError
from pytubemq.storage.disk.disk import OsDisk
from pytubemq.storage.disk.paths import is_partition_name, partition_directory, topic_directory
from pytubemq.storage.format.record import LogEnd, decode_records, encode_end
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.tools.read.files import find_partitions
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import ROOMY, ROOT, open_store, payloads, send

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = ["", ".", "..", "../x", "../../other", "/data/other", "a/b", "a\\b", "a\x00b", "a\nb", "a\ud800", "a" * 256]


@pytest.mark.parametrize("name", NAMES)
def test_such_a_name_makes_no_path(name: str) -> None:
    with pytest.raises(MessageError, match="not a topic that can be stored"):
        topic_directory(ROOT, name)
    with pytest.raises(MessageError, match="not a topic that can be stored"):
        partition_directory(ROOT, name, 0)


@pytest.mark.parametrize("partition_id", [-1, 1 << 32])
def test_such_an_id_makes_no_path(partition_id: int) -> None:
    with pytest.raises(MessageError, match="not a partition that can be stored"):
        partition_directory(ROOT, "demo", partition_id)


def test_a_path_is_below_the_logs() -> None:
    assert partition_directory(ROOT, "demo", 7) == ROOT / "logs" / "demo" / "7"


@pytest.mark.parametrize(
    ("name", "right"), [("0", True), ("10001", True), ("00", False), ("-1", False), ("²", False), ("9999999999", False)]
)
def test_a_partition_has_one_name(name: str, right: bool) -> None:
    assert is_partition_name(name) is right


def in_store(tmp_path: Path) -> tuple[BrokerStore, Path]:
    outside = tmp_path / "outside"
    (outside / "demo").mkdir(parents=True)
    (outside / "demo" / "kept").write_bytes(b"kept")
    return BrokerStore.open(tmp_path / "store", disk=OsDisk(), settings=ROOMY), outside


@pytest.mark.parametrize(
    "name",
    [str, lambda outside: f"../../{outside.name}", lambda _: "..", lambda _: "."],
    ids=["absolute", "up", "..", "."],
)
def test_a_drop_of_what_is_no_topic_removes_nothing(tmp_path: Path, name: Callable[[Path], str]) -> None:
    store, outside = in_store(tmp_path)
    store.ensure_partition("demo", 0)
    send(store, b"one")
    with pytest.raises(MessageError, match="not a topic that can be stored"):
        store.drop(name(outside))
    assert (outside / "demo" / "kept").read_bytes() == b"kept"
    assert payloads(store) == [b"one"]
    store.close()


def test_a_record_of_such_a_topic_is_none() -> None:
    assert decode_records(encode_end("demo", 0, LogEnd(0, 0))).ends
    with pytest.raises(ValueError, match="no topic has the name"):
        decode_records(encode_end("../../other", 0, LogEnd(0, 0)))


def test_a_directory_with_another_name_is_passed_over_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, _ = in_store(tmp_path)
    store.ensure_partition("demo", 0)
    send(store, b"one")
    store.close()
    for name in ("a\nb/0", "demo/00", "demo/99999999999"):
        (store.root / "logs" / name).mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        again = BrokerStore.open(store.root, disk=OsDisk(), settings=ROOMY)
    assert again.partitions() == [("demo", 0)]
    assert payloads(again) == [b"one"]
    assert any("a\\nb" in record.getMessage() for record in caplog.records)
    again.close()
    assert [found.topic for found in find_partitions(OsDisk(), store.root)] == ["demo"]


def test_names_of_other_languages_are_stored() -> None:
    store = open_store(FaultyDisk())
    store.ensure_partition("größe.1", 0)
    assert ("größe.1", 0) in store.partitions()
