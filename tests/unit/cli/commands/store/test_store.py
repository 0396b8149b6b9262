"""`pytubemq store`: what it prints, in every form, and what it ends with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytubemq.cli.options import OUTPUTS
from pytubemq.errors import ExitCode
from pytubemq.storage.store.store import BrokerStore
from tests.unit.cli.conftest import Ran

Tube = Callable[..., Ran]
RECORDED = Path(__file__).parents[4] / "vectors" / "java-store"
PARTITION = ("--partition", "0", "--topic")


@pytest.fixture
def imported(tube: Tube, tmp_path: Path) -> Path:
    root = tmp_path / "broker-1"
    assert tube("store", "import", str(root), "--from", str(RECORDED)).code == ExitCode.DONE
    return root


def damage(root: Path) -> None:
    path = root / "logs/demo/0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[data.index(b"with attributes")] ^= 1
    path.write_bytes(data)


def test_import_says_what_it_took_and_what_comes_next(tube: Tube, tmp_path: Path) -> None:
    found = tube("store", "import", str(tmp_path / "b"), "--from", str(RECORDED), "-o", "json")
    whole = json.loads(found.out)
    assert whole["messages"] == 23
    assert {"group": "g_filter", "topic": "filt", "partition_id": 0, "java_offset": 84, "offset": 84} in (
        whole["positions"]
    )
    assert any("topic create demo --partitions 3" in line for line in whole["create"])
    assert any("topicName=multi" in line and "numTopicStores=2" in line for line in whole["create"])
    again = tube("store", "import", str(tmp_path / "b"), "--from", str(RECORDED))
    assert again.code != ExitCode.DONE
    assert "already" in again.err


def test_import_with_damage_ends_with_1(tube: Tube, tmp_path: Path) -> None:
    java = Path(shutil.copytree(RECORDED, tmp_path / "java"))
    path = java / "filt-0" / f"{0:020d}.tube"
    path.write_bytes(path.read_bytes()[:-1])
    found = tube("store", "import", str(tmp_path / "b"), "--from", str(java))
    assert found.code == ExitCode.FAILED
    assert str(path) in found.out
    assert "torn" in found.out


@pytest.mark.parametrize("form", OUTPUTS)
def test_a_store_is_inspected_and_verified_in_every_form(tube: Tube, imported: Path, form: str) -> None:
    for command in ("inspect", "verify"):
        found = tube("store", command, str(imported), "-o", form)
        assert found.code == ExitCode.DONE, found.err
    shown = tube("store", "inspect", str(imported), "-o", "json")
    whole = json.loads(shown.out)
    assert {(row["topic"], row["partition"]): row["messages"] for row in whole["partitions"]}["demo", 2] == 11
    assert whole["problem"] is None


def test_a_topic_or_partition_that_is_not_there_is_an_error(tube: Tube, imported: Path) -> None:
    for command, what in (
        (("inspect", str(imported), "--topic", "nope"), "topic 'nope'"),
        (("inspect", str(imported), "--topic", "filt", "--partition", "9"), "partition 9 of topic 'filt'"),
        (("inspect", str(imported), "--partition", "99"), "partition 99"),
        (("verify", str(imported), "--topic", "nope"), "topic 'nope'"),
        (("export", str(imported), "--topic", "nope"), "topic 'nope'"),
    ):
        found = tube("store", *command)
        assert (found.code, found.out) == (ExitCode.NOT_FOUND, ""), command
        assert f"{what} does not exist in {imported}" in found.err


def test_records_are_shown_with_their_bodies(tube: Tube, imported: Path) -> None:
    found = tube(
        "store", "inspect", str(imported), "--topic", "filt", "--partition", "0", "--records", "2", "-o", "json"
    )
    rows = json.loads(found.out)
    assert [(row["first_offset"], row["body"], row["sound"]) for row in rows] == [
        (0, "filtered abc", True),
        (28, "filtered def", True),
    ]
    found = tube("store", "inspect", str(imported), "--records", "2")
    assert found.code == ExitCode.USAGE


def test_damage_ends_with_1_and_is_named(tube: Tube, imported: Path) -> None:
    damage(imported)
    found = tube("store", "verify", str(imported), "-o", "json")
    assert found.code == ExitCode.FAILED
    [row] = json.loads(found.out)
    assert (row["file"], row["topic"], row["from"], row["to"]) == (f"logs/demo/0/{0:020d}.log", "demo", 28, 56)
    assert "store repair" in found.err
    shown = tube(
        "store", "inspect", str(imported), "--topic", "demo", "--partition", "0", "--records", "9", "-o", "json"
    )
    assert shown.code == ExitCode.FAILED
    assert [row["sound"] for row in json.loads(shown.out)] == [True, False, True]


def test_a_running_broker_is_left_alone_and_may_be_looked_at(tube: Tube, imported: Path) -> None:
    store = BrokerStore.open(imported)
    try:
        found = tube("store", "verify", str(imported))
        assert found.code == ExitCode.REFUSED
        head, hint = found.err.splitlines()
        assert "is in use by process" in head
        assert hint.startswith("  try   stop that Broker; while it runs, only `")
        assert hint.endswith(f"pytubemq store inspect {imported}` may read it")
        assert tube("store", "inspect", str(imported)).code == ExitCode.DONE
        assert tube("store", "import", str(imported), "--from", str(RECORDED)).code == ExitCode.REFUSED
    finally:
        store.close()


def test_what_is_no_store_is_a_fault_of_usage_or_named(tube: Tube, tmp_path: Path) -> None:
    assert tube("store", "inspect", str(tmp_path / "nowhere")).code == ExitCode.USAGE
    (tmp_path / "empty").mkdir()
    for command in ("inspect", "verify", "repair", "export"):
        more = ("--topic", "demo") if command == "export" else ()
        found = tube("store", command, str(tmp_path / "empty"), *more)
        assert (found.code, found.out) == (ExitCode.USAGE, ""), "1 is for damage"
        assert "holds no Broker's store; give the Broker's own directory" in found.err


def test_the_brokers_directories_in_the_one_given_are_named(tube: Tube, imported: Path) -> None:
    (imported.parent / "master").mkdir()
    (imported.parent / "broker-2" / "journal").mkdir(parents=True)
    found = tube("store", "verify", str(imported.parent))
    assert found.code == ExitCode.USAGE
    assert f"holds no Broker's store; in it are: {imported}, {imported.parent / 'broker-2'}\n" in found.err


def test_repair_says_what_it_does_does_it_and_keeps_copies(tube: Tube, imported: Path) -> None:
    damage(imported)
    assert tube("store", "repair", str(imported)).code == ExitCode.USAGE
    planned = json.loads(tube("store", "repair", str(imported), "--dry-run", "-o", "json").out)
    assert tube("store", "verify", str(imported)).code == ExitCode.FAILED, "nothing was changed"
    found = tube("store", "repair", str(imported), "--yes", "-o", "json")
    assert found.code == ExitCode.DONE
    whole = json.loads(found.out)
    assert whole["done"] == planned["done"]
    assert [(row["topic"], row["from"], row["to"]) for row in whole["lost"]] == [("demo", 28, 56)]
    assert Path(whole["copies"], "checkpoint").exists()
    assert tube("store", "verify", str(imported)).code == ExitCode.DONE
    assert "nothing to repair" in tube("store", "repair", str(imported), "--yes").err


def test_export_gives_every_message_in_the_range(tube: Tube, imported: Path, tmp_path: Path) -> None:
    lines = tube("store", "export", str(imported), "--topic", "filt").out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["offset"], row["type"], row["msg_time"], row["body"]) for row in rows] == [
        (0, "abc", "202401011200", "filtered abc"),
        (28, "def", "202401011200", "filtered def"),
        (56, "abc", "202401011200", "filtered abc"),
    ]
    out = tmp_path / "bodies"
    where = ("--from", "28", "--to", "56", "--format", "raw", "--out", str(out))
    tube("store", "export", str(imported), "--topic", "filt", *where)
    assert out.read_bytes() == b"filtered def\n"
    late = tube("store", "export", str(imported), "--topic", "filt", "--from", "2030-01-01T00:00:00Z")
    assert (late.code, late.out) == (ExitCode.DONE, "")
    assert tube("store", "export", str(imported), "--topic", "filt", "--from", "soon").code == ExitCode.USAGE
    assert tube("store", "export", str(imported), "--topic", "nope").code == ExitCode.NOT_FOUND


def test_export_refuses_a_range_that_ends_before_it_begins(tube: Tube, imported: Path) -> None:
    found = tube("store", "export", str(imported), "--topic", "filt", "--from", "100", "--to", "50")
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    assert "--from is beyond --to" in found.err


def test_export_passes_over_what_is_lost_and_says_so(tube: Tube, imported: Path) -> None:
    damage(imported)
    found = tube("store", "export", str(imported), "--topic", "demo", "--partition", "0")
    assert found.code == ExitCode.FAILED
    assert [json.loads(line)["offset"] for line in found.out.splitlines()] == [0, 56]
    assert "1 lost" in found.err


@pytest.mark.parametrize("name", ["resets.jsonl", "topics.json"])
def test_what_lies_beside_the_store_is_verified_and_put_aside_by_a_repair(
    tube: Tube, imported: Path, name: str
) -> None:
    before = (imported / "checkpoint").read_bytes()
    (imported / name).write_bytes(b"\xffxx")
    (imported / "notes.txt").write_text("mine")
    found = tube("store", "verify", str(imported), "-o", "json")
    assert found.code == ExitCode.FAILED
    rows = {row["file"]: row["severity"] for row in json.loads(found.out)}
    assert rows == {name: "damage", "notes.txt": "harmless"}, "what is not checked is named"
    assert tube("store", "repair", str(imported), "--dry-run").code == ExitCode.DONE
    assert (imported / name).exists()
    assert tube("store", "repair", str(imported), "--yes").code == ExitCode.DONE
    assert not (imported / name).exists()
    assert (imported / f"{name}.damaged").read_bytes() == b"\xffxx"
    assert (imported / "checkpoint").read_bytes() == before, "the store itself was sound"
    assert tube("store", "verify", str(imported)).code == ExitCode.DONE
